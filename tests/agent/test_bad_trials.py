"""A bad trial costs that trial only: each one of the issue's list, then a good one on the same worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.events import KILLED, Outcome, Reported, TrainingEnded
from asyncsearch.rpc.messages import LogLines
from asyncsearch.trainable import TrainFunction, TrialContext
from tests.agent import trials
from tests.agent.driver import FakeDriver, agent


class BadThenGood:
    """The trainable of these tests: bad in trial 0, good in all others."""

    def __init__(self, bad: Callable[[TrialContext], Any]) -> None:
        self.bad = bad

    def __call__(self, trial: TrialContext) -> Any:
        return (self.bad if trial.name == "trial-0" else trials.process_id)(trial)


def goes_on(driver: FakeDriver) -> None:
    driver.train(1)
    assert driver.end(1).outcome is Outcome.RETURNED, driver.end(1)
    assert [m.resource for m in driver.of(Reported, 1)] == [1]


def bad_end(bad: Callable[[TrialContext], Any], folder: Path, **changes: Any) -> tuple[TrainingEnded, FakeDriver]:
    with agent(BadThenGood(bad), folder, **changes) as driver:
        driver.train(0)
        end = driver.end(0)
        goes_on(driver)
    return end, driver


def test_a_trial_that_raises_shows_its_traceback_and_its_last_lines(tmp_path: Path) -> None:
    end, driver = bad_end(trials.raises, tmp_path)
    assert (end.outcome, end.error_kind, end.resource) == (Outcome.FAILED, "ZeroDivisionError", 1)
    assert "about to divide" in end.error
    assert "in _divide" in end.error
    assert "asyncsearch/runner" not in end.error
    assert end.error.splitlines()[-1] == "ZeroDivisionError: float division by zero"
    assert driver.values(0) == [(1, 0.5)]


@pytest.mark.parametrize("bad", [trials.raises_what_cannot_be_shown, trials.raises_what_cannot_be_sent])
def test_an_exception_that_cannot_be_shown_is_a_failure_like_any_other(tmp_path: Path, bad: TrainFunction) -> None:
    end, _ = bad_end(bad, tmp_path)
    assert end.outcome is Outcome.FAILED
    assert end.error_kind in ("OddError", "ValueError")
    assert end.error_kind in end.error


def test_a_trial_that_returns_nothing_is_told_what_to_do(tmp_path: Path) -> None:
    end, _ = bad_end(trials.returns_nothing, tmp_path)
    assert (end.outcome, end.error_kind) == (Outcome.FAILED, "no_report")
    assert "trial.report(accuracy=...)" in end.error


def test_a_trial_that_returns_text_is_told_what_is_a_number(tmp_path: Path) -> None:
    end, _ = bad_end(trials.returns_text, tmp_path)
    assert (end.outcome, end.error_kind) == (Outcome.FAILED, "bad_report")
    assert "accuracy='very good' is not a number" in end.error


def test_nan_and_infinities_arrive_as_such(tmp_path: Path) -> None:
    end, driver = bad_end(trials.reports_not_a_number, tmp_path)
    assert end.outcome is Outcome.RETURNED
    assert [m.metrics["accuracy"] for m in driver.of(Reported, 0)] == ["NaN", "Infinity", "-Infinity"]


def test_a_trial_that_reports_text_learns_metric_value_and_rule(tmp_path: Path) -> None:
    end, driver = bad_end(trials.reports_text, tmp_path)
    assert (end.outcome, end.error_kind) == (Outcome.FAILED, "bad_report")
    assert "accuracy='very good' is not a number" in end.error
    assert driver.values(0) == []


def test_a_second_report_at_one_resource_is_an_error(tmp_path: Path) -> None:
    end, driver = bad_end(trials.reports_twice, tmp_path)
    assert (end.outcome, end.error_kind) == (Outcome.FAILED, "bad_report")
    assert "reported at resource 3" in end.error
    assert driver.values(0) == [(3, 0.1)]


@pytest.mark.parametrize(
    "bad",
    [
        trials.reports_every_millisecond,
        trials.returns_after_its_stop,
        trials.fails_after_its_stop,
        trials.prints_for_ever,
    ],
)
def test_a_trial_that_was_told_to_stop_counts_as_stopped_however_it_ends(tmp_path: Path, bad: TrainFunction) -> None:
    with agent(BadThenGood(bad), tmp_path) as driver:
        driver.train(0)
        driver.first(Reported)
        driver.stop(0)
        assert driver.end(0).outcome is Outcome.STOPPED
        assert driver.end(0).error_kind == ""
        goes_on(driver)


def test_a_trial_that_swallows_its_stop_is_killed(tmp_path: Path) -> None:
    with agent(BadThenGood(trials.goes_on_after_its_stop), tmp_path, stop_grace_s=0.2, kill_grace_s=0.2) as driver:
        driver.train(0)
        driver.first(Reported)
        driver.stop(0, reason="rank 7 of 20")
        end = driver.end(0)
        assert (end.outcome, end.error_kind) == (Outcome.STOPPED, "unheeded_stop")
        assert "did not heed its stop (rank 7 of 20)" in end.error
        goes_on(driver)


def test_a_trial_that_hangs_is_unwound_by_sigterm(tmp_path: Path) -> None:
    with agent(BadThenGood(trials.hangs), tmp_path / "store", stop_grace_s=0.1) as driver:
        driver.train(0, params={"note": str(tmp_path / "note")})
        driver.first(Reported)
        driver.stop(0)
        end = driver.end(0)
        assert (end.outcome, end.error_kind) == (Outcome.STOPPED, "")
        goes_on(driver)
    assert (tmp_path / "note").read_text() == "cleared up"


def test_a_trial_that_hangs_in_compiled_code_is_killed(tmp_path: Path) -> None:
    with agent(BadThenGood(trials.hangs_for_ever), tmp_path, stop_grace_s=0.1, kill_grace_s=0.1) as driver:
        driver.train(0)
        driver.first(Reported)
        driver.stop(0)
        assert (driver.end(0).outcome, driver.end(0).error_kind) == (Outcome.STOPPED, "unheeded_stop")
        goes_on(driver)


def test_sys_exit_costs_the_trial_and_not_the_process(tmp_path: Path) -> None:
    end, _ = bad_end(trials.exits, tmp_path)
    assert (end.outcome, end.error_kind) == (Outcome.FAILED, "exit")
    assert "sys.exit(3)" in end.error.splitlines()[-1]


def test_an_exit_names_its_code_and_the_last_lines(tmp_path: Path) -> None:
    end, _ = bad_end(trials.exits_at_once, tmp_path)
    assert (end.outcome, end.error_kind) == (Outcome.FAILED, "exit")
    assert "leaving now" in end.error
    assert "exited with code 4" in end.error.splitlines()[-1]


def test_a_keyboard_interrupt_of_the_trial_is_its_own(tmp_path: Path) -> None:
    end, _ = bad_end(trials.interrupts_itself, tmp_path)
    assert (end.outcome, end.error_kind) == (Outcome.FAILED, "KeyboardInterrupt")


def test_a_segfault_names_its_signal_and_the_line_of_code(tmp_path: Path) -> None:
    end, _ = bad_end(trials.segfaults, tmp_path)
    assert (end.outcome, end.error_kind) == (Outcome.FAILED, "signal")
    assert "in segfaults" in end.error  # faulthandler's traceback
    assert "SIGSEGV" in end.error.splitlines()[-1]


def test_a_trial_that_is_killed_is_no_failure_of_its_own(tmp_path: Path) -> None:
    end, driver = bad_end(trials.is_killed, tmp_path)
    assert (end.outcome, end.error_kind, end.resource) == (Outcome.FAILED, KILLED, 1)
    assert "its process was killed by SIGKILL" in end.error.splitlines()[-1]
    assert driver.values(0) == [(1, 0.5)]


def test_sigterm_from_outside_costs_the_process_and_is_no_trial_failure(tmp_path: Path) -> None:
    end, driver = bad_end(trials.is_terminated, tmp_path)
    assert (end.outcome, end.error_kind) == (Outcome.FAILED, KILLED)
    assert end.error.splitlines()[-1] == "its process got SIGTERM from outside"
    assert driver.values(0)[0][1] != driver.values(1)[0][1], "it may have unwound the process anywhere"


def test_a_trial_that_exhausts_memory_is_followed_by_a_fresh_process(tmp_path: Path) -> None:
    end, driver = bad_end(trials.exhausts_memory, tmp_path)
    assert (end.outcome, end.error_kind) == (Outcome.FAILED, "MemoryError")
    assert driver.values(0)[0][1] != driver.values(1)[0][1]


def test_a_million_lines_are_counted_and_the_newest_are_shown(tmp_path: Path) -> None:
    end, driver = bad_end(trials.prints_a_million_lines, tmp_path)
    assert end.outcome is Outcome.RETURNED
    batches = driver.of(LogLines, 0)
    assert sum(len(batch.lines) + batch.left_out for batch in batches) == trials.MILLION
    assert sum(batch.left_out for batch in batches) > trials.MILLION / 2
    assert all(len(batch.lines) <= 1_000 for batch in batches)


def test_bytes_that_are_not_text_are_replaced(tmp_path: Path) -> None:
    end, driver = bad_end(trials.prints_what_is_not_text, tmp_path)
    assert end.outcome is Outcome.RETURNED
    assert driver.text(0) == ["\ufffd\ufffd not text \ufffd", "a lone surrogate: \\udcff"]


def test_what_a_trial_does_to_its_process_is_undone(tmp_path: Path) -> None:
    with agent(BadThenGood(trials.ruins_its_outputs), tmp_path) as driver:
        driver.train(0)
        assert driver.end(0).outcome is Outcome.RETURNED
        driver.train(1)
        driver.end(1)
        assert driver.of(Reported, 1)[0].metrics["in_folder"] == 1.0


def test_a_trial_that_closes_all_descriptors_is_told_so(tmp_path: Path) -> None:
    end, _ = bad_end(trials.closes_everything, tmp_path)
    assert (end.outcome, end.error_kind) == (Outcome.FAILED, "exit")
    assert "cut itself off" in end.error


def test_a_trainable_that_cannot_be_loaded_fails_each_trial_with_why(tmp_path: Path) -> None:
    with agent(trials.CannotBeLoaded(), tmp_path) as driver:
        for number in (0, 1):
            driver.train(number)
            end = driver.end(number)
            assert (end.outcome, end.error_kind) == (Outcome.FAILED, "ModuleNotFoundError")
            assert "No module named 'left_at_home'" in end.error.splitlines()[-1]


def test_a_trainable_that_crashes_while_it_is_loaded_fails_each_trial(tmp_path: Path) -> None:
    with agent(trials.CrashesOnLoad(), tmp_path) as driver:
        for number in (0, 1):
            driver.train(number)
            end = driver.end(number)
            assert (end.outcome, end.error_kind) == (Outcome.FAILED, "exit")
            assert "code 9" in end.error
