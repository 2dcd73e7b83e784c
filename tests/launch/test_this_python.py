"""Whether another Python process finds the packages that this one finds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from asyncsearch.launch.spark.probe import has_this_environment

HOME = str(Path(__file__).resolve().parent.parent.parent)


def test_this_interpreter_has_this_environment_by_each_of_its_names() -> None:
    assert has_this_environment(sys.executable)
    assert has_this_environment(os.path.join(os.path.dirname(sys.executable), "python3"))


def test_an_interpreter_elsewhere_has_not(tmp_path: Path) -> None:
    link = tmp_path / "python"
    link.symlink_to(os.path.realpath(sys.executable))
    assert not has_this_environment(str(link))
    assert not has_this_environment("no-such-python")


@pytest.mark.parametrize(("inherited", "there"), [(HOME, True), ("", False), ("asyncsearch", False)])
def test_a_package_on_a_scripts_own_path_is_not_found_by_others(inherited: str, there: bool) -> None:
    code = f"""
import sys
sys.path.insert(0, {HOME!r})
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in str(finder).lower()]
from asyncsearch.launch.spark import probe
probe._is_installed = lambda: False
print(probe.has_this_environment(sys.executable))
"""
    environment = {**os.environ, "PYTHONPATH": inherited}
    done = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.strip() == str(there)
