"""A check of a trainable that fails shows what is wrong in it, and nothing of how it is checked."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import check, cli
from asyncsearch.errors import CannotPauseError, UsageError


def helper(data: dict[str, float]) -> float:
    return data["missing"]


def raises(trial: Any) -> None:
    for _ in trial.epochs(save=lambda path: None, load=lambda path: None):
        trial.report(loss=helper({}))


def exits(trial: Any) -> None:
    for _ in trial.epochs(save=lambda path: None, load=lambda path: None):
        raise SystemExit(3)


def never_loops(trial: Any) -> None:
    trial.report(loss=1.0)


@pytest.mark.parametrize("processes", [True, False])
def test_a_failure_shows_the_users_frames_alone(processes: bool) -> None:
    with pytest.raises(UsageError, match="raises itself fails; correct that first") as caught:
        check(raises, units=2, processes=processes)
    words = str(caught.value)
    assert words.count("Traceback (most recent call last)") == 1
    assert "in raises" in words
    assert "in helper" in words
    assert words.endswith("KeyError: 'missing'")
    assert "asyncsearch/" not in words.replace(str(Path(__file__)), "")
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.count("resume_proof.py") == 1, "of the check itself only the call is shown"


def test_a_failure_without_hyper_parameters_says_how_to_give_some() -> None:
    given = re.escape(r"""check(..., {"lr": 0.1}), or --params '{"lr": 0.1}'""")
    with pytest.raises(UsageError, match=f"of which it had none: {given}"):
        check(raises, units=2, processes=False)
    with pytest.raises(UsageError, match="correct that first:"):
        check(raises, {"lr": 0.1}, units=2, processes=False)


def test_a_trainable_that_exits_is_said_to_and_does_not_end_this_process() -> None:
    with pytest.raises(UsageError, match=r"called sys.exit\(3\); a trial ends by returning"):
        check(exits, units=2, processes=False)


@pytest.mark.parametrize("processes", [True, False])
def test_what_cannot_be_paused_is_said_in_one_sentence(processes: bool) -> None:
    with pytest.raises(CannotPauseError, match=r"^never_loops cannot be paused, so there is nothing to check: write"):
        check(never_loops, units=2, processes=processes)


def test_the_command_shows_the_traceback_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "tune.py"
    script.write_text(Path(__file__).read_text(encoding="utf-8"), encoding="utf-8")
    assert cli.main(["check", f"{script}:raises", "--in-process"]) == 2
    printed = capsys.readouterr().err
    assert "asyncsearch: raises itself fails" in printed
    assert f'\n  File "{script}", line ' in printed
