"""A failure in this process is printed where it is raised, once, and not again by the error of the run."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from asyncsearch import Study, choice
from asyncsearch.errors import TrialsFailedError
from asyncsearch.launch.inline_runner import ShownFailures
from asyncsearch.study.runnable import CORRECT


def fails(trial: Any) -> None:
    if trial.params["x"] == 3:
        raise KeyError("elsewhere")
    raise ValueError(f"x is {trial.params['x']}")


def reports_nothing(trial: Any) -> None: ...


def raised(x: int) -> Exception:
    try:
        fails(SimpleNamespace(params={"x": x}))
    except Exception as error:
        return error
    raise AssertionError("it raises")


def search(folder: Path, trainable: Any, num_trials: int) -> str:
    space = {"x": choice(*range(num_trials))}
    made = Study(
        trainable, space=space, metric="loss", mode="min", searcher="grid", store=folder / "s", backend="inline"
    )
    with pytest.raises(TrialsFailedError) as caught:
        made.run(display="none")
    return str(caught.value)


def test_the_same_traceback_is_printed_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = search(tmp_path, fails, 2)
    printed = capsys.readouterr().err
    assert printed.count("Traceback (most recent call last)") == 1
    assert "trial-1 failed at the same line as trial-0: ValueError: x is 1" in printed
    assert words == f"all 2 trials failed. {CORRECT}; the traceback is above: ValueError: x is 1"


def test_a_failure_elsewhere_has_a_traceback_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    shown = ShownFailures()
    for number, x in enumerate((1, 2, 3)):
        shown.show(f"trial-{number}", raised(x))
    printed = capsys.readouterr().err
    assert printed.count("Traceback (most recent call last)") == 2
    assert "trial-2 failed; look around by: import pdb; pdb.pm()" in printed
    assert isinstance(sys.last_value, KeyError)


def test_a_failure_without_a_traceback_is_told_by_the_error_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "above" not in search(tmp_path, reports_nothing, 1)


def test_the_traceback_of_a_trial_in_this_process_has_no_frames_of_ours(tmp_path: Path) -> None:
    search(tmp_path, fails, 1)
    assert "launch/inline" not in Study.open(tmp_path / "s").explain(0)
