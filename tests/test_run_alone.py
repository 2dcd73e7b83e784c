"""Failed tests run once more, alone, in a real pytest."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run_alone import MOST, PASSED_ALONE

FAILS_ONCE = """
import pathlib
def test_once():
    note = pathlib.Path(__file__).with_name("note")
    ran, _ = note.exists(), note.touch()
    assert ran, "its first time"
"""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_test_that_passes_alone_is_counted_and_shown_and_fails_nothing(tmp_path: Path, workers: str) -> None:
    done = run(tmp_path, f"{FAILS_ONCE}\ndef test_other():\n    pass\n", workers)
    assert done.returncode == 0
    assert re.search(rf"1 passed, 1 {PASSED_ALONE} in ", done.stdout.splitlines()[-1])
    assert "its first time" in done.stdout


def test_a_test_that_fails_alone_too_fails_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, f"{FAILS_ONCE}\ndef test_always():\n    assert False\n")
    assert done.returncode == 1
    assert re.search(rf"1 failed, 1 {PASSED_ALONE} in ", done.stdout.splitlines()[-1])


def test_many_failures_count_as_they_are(tmp_path: Path) -> None:
    done = run(tmp_path, FAILS_ONCE + "".join(f"def test_{n}():\n    assert False\n" for n in range(MOST)))
    assert done.returncode == 1
    assert re.search(rf"{MOST + 1} failed in ", done.stdout.splitlines()[-1])


def test_an_error_in_a_fixture_is_tried_again_in_its_group(tmp_path: Path) -> None:
    text = FAILS_ONCE.replace("def test_once", "import pytest\n@pytest.fixture\ndef once")
    text += """
@pytest.mark.xdist_group("heavy")
@pytest.mark.parametrize("who", ["a@b"])
def test_it(once, who):
    pass
"""
    done = run(tmp_path, text, "1")
    assert done.returncode == 0
    assert re.search(rf"1 {PASSED_ALONE} in ", done.stdout.splitlines()[-1])


def run(folder: Path, text: str, workers: str = "0") -> subprocess.CompletedProcess[str]:
    (folder / "test_sample.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    options = ["-p", "tests.run_alone", "-p", "no:cacheprovider", "-n", workers, "--dist", "loadgroup", "--color", "no"]
    command = [sys.executable, "-m", "pytest", "--rootdir", str(folder), *options, str(folder)]
    here = Path(__file__).parent.parent
    return subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": str(here), "PATH": ""}, capture_output=True, text=True, check=False
    )
