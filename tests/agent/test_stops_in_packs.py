"""A stop of some lanes of a process: it waits for the end of their unit, and costs the others nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.actions import AddLane, Assign, StopTraining
from asyncsearch.agent.config import LogLimits
from asyncsearch.agent.lane_run import LaneRun, signal_due
from asyncsearch.events import Outcome, TrainingEnded
from asyncsearch.trainable import Trainer
from asyncsearch.work import Work
from tests.agent import trials
from tests.agent.driver import FakeDriver, agent, lease
from tests.agent.test_packs import ends, lane_of, values

IMPATIENT: dict[str, Any] = {"stop_grace_s": 0.02, "kill_grace_s": 0.02, "heartbeat_s": 0.01}


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    """Something that a unit waits for until a test writes into it."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


def waiting(fifo: Path, unit: int) -> dict[str, Any]:
    return {"waits_at": unit, "fifo": str(fifo)}


def stop(driver: FakeDriver, lane: int) -> None:
    driver.deliver(StopTraining(lease(0), "not worth it", lane))


def let_grace_pass(driver: FakeDriver) -> None:
    """Wait until the agent has been idle for many times the grace of a stop, or something has ended."""
    count = driver.heartbeats + 30
    driver.wait(lambda: driver.heartbeats > count or bool(driver.of(TrainingEnded)))


@contextmanager
def held(driver: FakeDriver, fifo: Path) -> Iterator[None]:
    """Hold a unit from when it waits to the end of the block."""
    found: list[int] = []

    def is_waiting() -> bool:
        with contextlib.suppress(OSError):  # nobody waits yet
            found.append(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        return bool(found)

    driver.wait(is_waiting)
    try:
        yield
    finally:
        os.close(found[0])


def test_a_stopped_lane_waits_for_the_end_of_the_unit_of_the_others(tmp_path: Path, fifo: Path) -> None:
    with agent(trials.Packed, tmp_path, **IMPATIENT) as driver:
        driver.assign(0, [lane_of(0, params=waiting(fifo, 2)), lane_of(1)])
        with held(driver, fifo):
            stop(driver, 1)
            let_grace_pass(driver)
            assert driver.of(TrainingEnded) == []
        found = ends(driver, 2)
        assert values(driver, 0) == [0.5, 1.0, 1.5]
    assert [found[lane].outcome for lane in (0, 1)] == [Outcome.RETURNED, Outcome.STOPPED]
    assert found[1].resource == 1


@pytest.mark.parametrize(("dues", "due"), [([], None), ([None], None), ([5.0, 9.0], 9.0), ([9.0, None, 5.0], 9.0)])
def test_each_lane_that_is_to_stop_has_its_whole_grace(dues: list[float | None], due: float | None) -> None:
    runs = [LaneRun(lease(0), number, lane_of(number), LogLimits()) for number in range(len(dues))]
    for run, when in zip(runs, dues, strict=True):
        run.escalate_at = when
    assert signal_due(runs) == due


def test_a_stop_that_is_not_heeded_is_enforced_though_no_heartbeat_is_due(tmp_path: Path, fifo: Path) -> None:
    with agent(trials.Packed, tmp_path, **IMPATIENT | {"heartbeat_s": 3600.0}) as driver:
        driver.assign(0, [lane_of(0, params=waiting(fifo, 2)), lane_of(1)])
        with held(driver, fifo):
            stop(driver, 0)
            stop(driver, 1)
            found = ends(driver, 2)
    assert {end.outcome for end in found.values()} == {Outcome.STOPPED}


@pytest.mark.parametrize("kind", [trials.Packed, trials.NotPacked])
def test_stopping_a_lane_not_yet_begun_leaves_the_training_one_alone(
    tmp_path: Path, fifo: Path, kind: type[Trainer]
) -> None:
    with agent(kind, tmp_path, **IMPATIENT) as driver:
        driver.deliver(Assign(Work(lease(0), (lane_of(0, params=waiting(fifo, 2)),), is_open=True)))
        with held(driver, fifo):
            driver.deliver(AddLane(lease(0), 3, lane_of(3)))
            stop(driver, 3)
            let_grace_pass(driver)
        found = ends(driver, 2)
        assert values(driver, 0) == [0.5, 1.0, 1.5]
        assert values(driver, 3) == []
    assert [found[lane].outcome for lane in (0, 3)] == [Outcome.RETURNED, Outcome.STOPPED]


def test_a_process_whose_lanes_are_all_stopped_ends_if_it_does_not_heed(tmp_path: Path, fifo: Path) -> None:
    with agent(trials.Packed, tmp_path, **IMPATIENT) as driver:
        driver.assign(0, [lane_of(0, params=waiting(fifo, 2)), lane_of(1)])
        with held(driver, fifo):
            stop(driver, 1)
            let_grace_pass(driver)
            stop(driver, 0)
            found = ends(driver, 2)
        driver.assign(2, [lane_of(0)])
        assert driver.end(2).outcome is Outcome.RETURNED
    assert {end.outcome for end in found.values()} == {Outcome.STOPPED}


def test_a_lane_joins_no_process_whose_lanes_are_all_to_stop(tmp_path: Path, fifo: Path) -> None:
    with agent(trials.Packed, tmp_path, **IMPATIENT) as driver:
        driver.deliver(Assign(Work(lease(0), (lane_of(0, params=waiting(fifo, 2)),), is_open=True)))
        with held(driver, fifo):
            stop(driver, 0)
            driver.deliver(AddLane(lease(0), 3, lane_of(3)))
            found = ends(driver, 2)
        assert values(driver, 3) == [2.0, 4.0, 6.0]
    assert [found[lane].outcome for lane in (0, 3)] == [Outcome.STOPPED, Outcome.RETURNED]
