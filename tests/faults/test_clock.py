"""Clocks that jump: the time of the journal never goes back, and nothing is lost or given up for it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsearch import Study, WorkerOptions
from asyncsearch.driver.loop import Driver
from tests.faults.accounts import losses, require_accounted, wasted
from tests.shares import first
from tests.system.tools import Running, make_study
from tests.system.trained import Gate, make_trainable

LEVELS = [1, 3, 9]
HOUR_S = 3_600.0


def jumping(jumps: list[float], every: int) -> Callable[[], float]:
    """Return a clock that is off by each of these in turn, for so many readings."""
    readings = itertools.count()
    return lambda: time.time() + jumps[next(readings) // every % len(jumps)]


def clocked(monkeypatch: pytest.MonkeyPatch, clock: Callable[[], float]) -> None:
    defaults = Driver.__init__.__kwdefaults__
    assert defaults is not None
    assert defaults["clock"] is not None
    monkeypatch.setitem(defaults, "clock", clock)


def search(folder: Path) -> Study:
    gate = Gate(folder)
    (folder / "passed").touch()  # nobody waits at the gate
    workers = WorkerOptions(lease_timeout=60.0, trial_timeout=600.0)
    return make_study(make_trainable(gate), folder / "study", workers=workers, resume=True, name="clock")


def require_undisturbed(study: Study, trials: int = 9) -> None:
    require_accounted(study, range(1, trials + 1), LEVELS)
    assert losses(study) == []
    assert wasted(study) == 0


@pytest.mark.parametrize("jumps", first([[0.0, HOUR_S, -HOUR_S], [0.0, HOUR_S], [0.0, -HOUR_S]]), ids=str)
def test_a_clock_that_jumps_by_an_hour_costs_no_lease_and_no_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jumps: list[float]
) -> None:
    clocked(monkeypatch, jumping(jumps, every=7))
    require_undisturbed(Running(search(tmp_path)).wait())


def test_a_driver_whose_clock_is_an_hour_behind_its_journal_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocked(monkeypatch, jumping([HOUR_S], every=1))
    Running(search(tmp_path), num_trials=4).wait()
    clocked(monkeypatch, time.time)
    require_undisturbed(Running(search(tmp_path)).wait())
