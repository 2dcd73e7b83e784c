"""The wheel that scripts/build.sh makes: what it contains, and that it works without this checkout."""

from __future__ import annotations

import re
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.scripts.tools import imported

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_wheel_without_extras_runs_the_readmes_example_on_its_own(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", str(ROOT / "scripts/build.sh"), str(tmp_path / "wheels here")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = (tmp_path / "wheels here").glob("*.whl")
    assert f"{wheel.name}: runs the README's example" in done.stdout
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"asyncsearch"}
    assert "asyncsearch/py.typed" in names


def test_of_each_extra_something_is_used_where_it_is_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {*imported("_try_wheel").USES} == {*project["optional-dependencies"]}


@pytest.mark.parametrize("there", ["", "krb5-config"])
def test_an_extra_that_cannot_be_compiled_here_is_skipped_with_the_reason(
    there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / (there or "other")).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    script = imported("_try_wheel")
    assert script.reason_to_skip("s3") == ""
    assert ("libkrb5-dev" in script.reason_to_skip("kerberos")) == (not there)


def test_readme_says_what_each_extra_is_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = re.findall(r"^\| `([a-z0-9]+)` \| \S", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert {*project["optional-dependencies"]} <= {*rows}
