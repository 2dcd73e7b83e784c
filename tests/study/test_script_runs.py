"""A script is read for its study as far as its first run, which is not carried out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsearch import cli

STUDY = """
from asyncsearch import ASHA, Study, run_together, uniform

def train(trial):
    for epoch in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
        trial.report(loss=trial.params["x"] / epoch)

def made(store):
    scheduler = ASHA(max_resource=4, reduction_factor=2)
    return Study(train, space={"x": uniform(0, 1)}, metric="loss", mode="min", scheduler=scheduler, store=store)
"""
SEARCH = """
study = made("studies/a")
try:
    study.run(num_trials=8, parallelism=3)
except Exception:
    print("swallowed")
print("went on", study.best_trial)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = sys.modules.copy()  # with another dictionary in its place, imports inside packages would fail
    yield tmp_path
    sys.modules.update(before)


def script(text: str) -> str:
    Path("search.py").write_text(STUDY + text, encoding="utf-8")
    return "search.py"


def test_a_script_with_a_run_is_previewed_with_its_numbers_and_not_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["preview", script(SEARCH)]) == 0
    shown = capsys.readouterr()
    assert "less than training all 8 to the end" in shown.out
    assert "on 3 workers" in shown.out
    assert "swallowed" not in shown.out
    assert "went on" not in shown.out
    assert not Path("studies").exists()


def test_numbers_of_the_command_line_come_before_those_of_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["preview", script(SEARCH), "--num-trials", "16", "--parallelism", "2"]) == 0
    shown = capsys.readouterr().out
    assert "training all 16 to the end" in shown
    assert "on 2 workers" in shown


def test_a_script_that_runs_its_search_is_checked_and_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", script(SEARCH), "--in-process"]) == 0
    assert "resumes bit by bit        yes" in capsys.readouterr().out
    assert not Path("studies").exists()


def test_a_script_that_runs_several_studies_together_is_read_for_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    text = 'run_together([made("studies/a"), made("studies/b")], num_trials=[8, 16])'
    assert cli.main(["preview", script(text)]) == 0
    assert "training all 8 to the end" in capsys.readouterr().out
    assert not Path("studies").exists()


def test_the_only_study_of_a_script_may_have_any_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["preview", script('search = made("studies/a")'), "--num-trials", "8"]) == 0
    assert "training all 8 to the end" in capsys.readouterr().out


def test_of_several_studies_that_a_script_never_runs_one_is_called_study(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["preview", script('one, two = made("a"), made("b")'), "--num-trials", "8"]) == 2
    assert "makes one and two: call the one to look at `study`." in capsys.readouterr().err


def test_a_preview_without_a_number_of_trials_says_the_command_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["preview", script('study = made("studies/a")')]) == 2
    assert "write asyncsearch preview search.py --num-trials 64." in capsys.readouterr().err


def test_a_script_without_a_study_says_what_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", script("")]) == 2
    error = capsys.readouterr().err
    assert "write `study = Study(...)` there" in error
    assert "asyncsearch check search.py:train --params '{\"lr\": 0.1}'" in error


def test_a_script_that_cannot_be_sent_to_the_check_says_why_and_a_remedy() -> None:
    text = "import threading\nguard = threading.Lock()\ndef guarded(trial):\n    return guard.locked() + 1.0"
    command = [sys.executable, "-m", "asyncsearch", "check", f"{script(text)}:guarded"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "global variable 'guard' (_thread.lock)" in done.stderr
    assert "write --in-process, or processes=False" in done.stderr
    assert "asyncsearch_script_" not in done.stderr
