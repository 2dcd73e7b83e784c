"""Lanes that join work on an agent: one process trains them with the others, or alone if these have ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from asyncsearch.actions import AddLane, Assign, StopTraining
from asyncsearch.events import KILLED, CheckpointCommitted, Outcome, Reported, TrainingEnded
from asyncsearch.ids import CheckpointRef
from asyncsearch.rpc.messages import LogLines
from asyncsearch.store import LocalStore
from asyncsearch.work import Lane, Work
from tests.agent import trials
from tests.agent.driver import FakeDriver, agent, lease
from tests.agent.test_packs import ends, lane_of, node, values

LONG = {"stop": 500_000, "max_resource": 500_000}


class Counting(LocalStore):
    """Notes which checkpoints are fetched."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.fetched: list[CheckpointRef] = []

    @contextmanager
    def fetch(self, checkpoint: CheckpointRef) -> Iterator[Path]:
        self.fetched.append(checkpoint)
        with super().fetch(checkpoint) as path:
            yield path


def assign(driver: FakeDriver, number: int, lanes: list[Lane]) -> None:
    driver.deliver(Assign(Work(lease(number), tuple(lanes), is_open=True)))


def add(driver: FakeDriver, number: int, lane: Lane) -> None:
    driver.deliver(AddLane(lease(0), number, lane))


def stop(driver: FakeDriver, lane: int) -> None:
    driver.deliver(StopTraining(lease(0), "not worth it", lane))


@pytest.mark.parametrize("others", [1, 2])
def test_a_lane_joins_the_process_of_those_that_train(tmp_path: Path, others: int) -> None:
    with agent(trials.Packed, tmp_path) as driver:
        assign(driver, 0, [lane_of(lane, **LONG) for lane in range(others)])  # type: ignore[arg-type]
        driver.first(Reported)
        add(driver, 9, lane_of(9))
        driver.wait(lambda: any(end.lane == 9 for end in driver.of(TrainingEnded)))
        assert values(driver, 9) == [5.0, 10.0, 15.0]
        for lane in range(others):
            stop(driver, lane)
        found = ends(driver, others + 1)
        reports = driver.of(Reported)
    assert found[9].outcome is Outcome.RETURNED
    assert {found[lane].outcome for lane in range(others)} == {Outcome.STOPPED}
    assert {report.metrics["together"] for report in reports if report.lane == 9} == {others + 1.0}
    assert len({report.metrics["pid"] for report in reports}) == 1


def test_a_lane_whose_pack_has_ended_trains_alone(tmp_path: Path) -> None:
    with agent(trials.Packed, tmp_path) as driver:
        assign(driver, 0, [lane_of(0)])
        ends(driver, 1)
        add(driver, 5, lane_of(5))
        found = ends(driver, 2)
        assert values(driver, 5) == [3.0, 6.0, 9.0]
    assert found[5].outcome is Outcome.RETURNED


def test_lanes_that_cross_the_end_of_their_pack_are_trained_once_each(tmp_path: Path) -> None:
    with agent(trials.Packed, tmp_path) as driver:
        assign(driver, 0, [lane_of(0)])
        for lane in range(1, 40):
            add(driver, lane, lane_of(lane))
        found = ends(driver, 40)
        assert {end.outcome for end in found.values()} == {Outcome.RETURNED}
        assert [values(driver, lane)[-1] for lane in range(40)] == [1.5 * (lane + 1) for lane in range(40)]
        assert [len(values(driver, lane)) for lane in range(40)] == [3] * 40
        lines = [line.text for batch in driver.of(LogLines) for line in batch.lines]
    assert all(line.startswith("a unit of ") for line in lines)


def test_no_line_is_lost_of_a_lane_that_crossed_the_end_of_its_pack(tmp_path: Path) -> None:
    with agent(trials.Loud, tmp_path) as driver:
        assign(driver, 0, [lane_of(0)])
        for lane in range(1, 40):
            add(driver, lane, lane_of(lane))
            if lane % 3 == 0:
                ends(driver, lane)
        ends(driver, 40)
    lines = [line.text for batch in driver.of(LogLines) for line in batch.lines]
    assert lines.count("one unit") == 3 * 40


def test_a_repeated_lane_is_trained_once(tmp_path: Path) -> None:
    with agent(trials.Packed, tmp_path) as driver:
        assign(driver, 0, [lane_of(0, **LONG)])  # type: ignore[arg-type]
        for _ in range(3):
            add(driver, 2, lane_of(2))
        driver.wait(lambda: any(end.lane == 2 for end in driver.of(TrainingEnded)))
        stop(driver, 0)
        ends(driver, 2)
    assert len(driver.of(TrainingEnded)) == 2


def test_a_lane_joins_from_its_checkpoint_once_it_is_here(tmp_path: Path) -> None:
    with agent(trials.Packed, tmp_path) as driver:
        driver.assign(7, [lane_of(3, stop=2, save=True)])
        driver.first(CheckpointCommitted)
        driver.end(7)
        driver.deliver(Assign(Work(lease(0), (lane_of(0, **LONG),), is_open=True)))  # type: ignore[arg-type]
        driver.first(Reported, 0)
        add(driver, 4, lane_of(3, CheckpointRef(node(3), 2), start=2))
        driver.wait(lambda: any(end.lane == 4 for end in driver.of(TrainingEnded, 0)))
        assert [r.metrics["accuracy"] for r in driver.of(Reported, 0) if r.lane == 4] == [6.0]
        stop(driver, 0)
        driver.wait(lambda: len(driver.of(TrainingEnded, 0)) == 2)


def test_the_checkpoint_of_a_lane_that_joins_waiting_work_is_fetched_once(tmp_path: Path) -> None:
    store = Counting(tmp_path)
    with agent(trials.Packed, tmp_path) as driver:
        driver.assign(7, [lane_of(3, stop=2, save=True)])
        driver.first(CheckpointCommitted)
        driver.end(7)
    with agent(trials.Packed, tmp_path, store=store) as driver:
        assign(driver, 0, [lane_of(0, **LONG)])  # type: ignore[arg-type]
        driver.first(Reported, 0)
        assign(driver, 10, [lane_of(1)])
        driver.deliver(AddLane(lease(10), 4, lane_of(3, CheckpointRef(node(3), 2), start=2)))
        stop(driver, 0)
        driver.wait(lambda: len(driver.of(TrainingEnded, 10)) == 2)
        assert [r.metrics["accuracy"] for r in driver.of(Reported, 10) if r.lane == 4] == [6.0]
    assert store.fetched == [CheckpointRef(node(3), 2)]


def test_a_lane_that_is_stopped_at_once_leaves_the_others_training(tmp_path: Path) -> None:
    with agent(trials.Packed, tmp_path) as driver:
        assign(driver, 0, [lane_of(0, **LONG)])  # type: ignore[arg-type]
        driver.first(Reported)
        add(driver, 1, lane_of(1, **LONG))  # type: ignore[arg-type]
        stop(driver, 1)
        driver.wait(lambda: any(end.lane == 1 for end in driver.of(TrainingEnded)))
        before = len(driver.of(Reported))
        driver.wait(lambda: len(driver.of(Reported)) > before + 10)
        stop(driver, 0)
        assert {end.outcome for end in ends(driver, 2).values()} == {Outcome.STOPPED}


def test_the_death_of_the_process_costs_a_lane_that_joined_its_attempt(tmp_path: Path) -> None:
    with agent(trials.Packed, tmp_path) as driver:
        assign(driver, 0, [lane_of(0, **LONG)])  # type: ignore[arg-type]
        driver.first(Reported)
        add(driver, 1, lane_of(1, params={"dies_at": 2}, **LONG))  # type: ignore[arg-type]
        found = ends(driver, 2)
    assert [found[lane].error_kind for lane in (0, 1)] == [KILLED] * 2
    assert found[1].resource == 1


def test_with_fresh_processes_a_joining_lane_waits_for_the_next_process(tmp_path: Path) -> None:
    with agent(trials.Packed, tmp_path, fresh_process=True) as driver:
        assign(driver, 0, [lane_of(0, **LONG)])  # type: ignore[arg-type]
        driver.first(Reported)
        add(driver, 1, lane_of(1))
        stop(driver, 0)
        assert ends(driver, 2)[1].outcome is Outcome.RETURNED
        assert len({report.metrics["pid"] for report in driver.of(Reported)}) == 2


def test_a_process_that_is_to_be_replaced_takes_lanes_that_join_first(tmp_path: Path) -> None:
    with agent(trials.Packed, tmp_path, recycle_after=1) as driver:
        assign(driver, 0, [lane_of(0, **LONG)])  # type: ignore[arg-type]
        driver.first(Reported)
        add(driver, 1, lane_of(1))
        driver.wait(lambda: any(end.lane == 1 for end in driver.of(TrainingEnded)))
        stop(driver, 0)
        ends(driver, 2)
        driver.assign(2, [lane_of(2)])
        driver.end(2)
        first, then = ({report.metrics["pid"] for report in driver.of(Reported, number)} for number in (0, 2))
    assert len(first) == len(then) == 1
    assert first != then


def test_where_packing_is_impossible_joining_lanes_train_in_turn(tmp_path: Path) -> None:
    with agent(trials.good, tmp_path) as driver:
        assign(driver, 0, [lane_of(0)])
        for lane in (1, 2, 3):
            add(driver, lane, lane_of(lane))
        assert {end.outcome for end in ends(driver, 4).values()} == {Outcome.RETURNED}
        assert [len(values(driver, lane)) for lane in range(4)] == [3] * 4
