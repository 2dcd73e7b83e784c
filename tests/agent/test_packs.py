"""The lanes of one lease on an agent: trained together by one runner, told and stored each on its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from asyncsearch.actions import StopTraining
from asyncsearch.events import KILLED, CheckpointCommitted, Outcome, Reported, TrainingEnded
from asyncsearch.ids import CheckpointRef, NodeKey, TrialId
from asyncsearch.rpc.messages import LogLines
from asyncsearch.work import Lane
from tests.agent import trials
from tests.agent.driver import FakeDriver, agent, lease, make_stage


def node(lane: int) -> NodeKey:
    return NodeKey(f"{lane:032x}")


def lane_of(
    number: int, load: CheckpointRef | None = None, params: dict[str, Any] | None = None, **changes: Any
) -> Lane:
    values = {"lr": 0.5 * (number + 1)} | (params or {})
    stage = make_stage(0, stop=3, max_resource=3, params=values)
    return Lane((msgspec.structs.replace(stage, node=node(number), trials=(TrialId(number),), **changes),), load)


def values(driver: FakeDriver, lane: int) -> list[float]:
    return [found.metrics["accuracy"] for found in driver.of(Reported) if found.lane == lane]  # type: ignore[misc]


def ends(driver: FakeDriver, lanes: int) -> dict[int, TrainingEnded]:
    driver.wait(lambda: len(driver.of(TrainingEnded)) >= lanes)
    return {end.lane: end for end in driver.of(TrainingEnded)}


def test_the_lanes_of_a_lease_train_together_in_one_process(tmp_path: Path) -> None:
    with agent(trials.Packed, tmp_path) as driver:
        driver.assign(0, [lane_of(0), lane_of(1), lane_of(2)])
        assert {end.outcome for end in ends(driver, 3).values()} == {Outcome.RETURNED}
        assert [values(driver, lane) for lane in range(3)] == [[0.5, 1.0, 1.5], [1.0, 2.0, 3.0], [1.5, 3.0, 4.5]]
        reports = driver.of(Reported)
    assert {report.metrics["together"] for report in reports} == {3.0}
    assert len({report.metrics["pid"] for report in reports}) == 1
    assert [(report.lane, report.resource) for report in reports[:4]] == [(0, 1), (1, 1), (2, 1), (0, 2)]


def test_a_lane_stores_what_it_would_alone_and_can_continue_alone(tmp_path: Path) -> None:
    with agent(trials.Packed, tmp_path) as driver:
        driver.assign(0, [lane_of(0, stop=2, save=True), lane_of(1, stop=2, save=True)])
        driver.wait(lambda: len(driver.of(CheckpointCommitted)) == 2)
        assert {found.checkpoint: found.lane for found in driver.of(CheckpointCommitted)} == {
            CheckpointRef(node(0), 2): 0,
            CheckpointRef(node(1), 2): 1,
        }
        assert {lane: end.checkpoint_resource for lane, end in ends(driver, 2).items()} == {0: 2, 1: 2}
        driver.assign(2, [lane_of(1, CheckpointRef(node(1), 2), start=2)])
        driver.end(2)
        assert [found.metrics["accuracy"] for found in driver.of(Reported, 2)] == [3.0]


def test_lanes_begin_when_the_checkpoints_of_all_are_here(tmp_path: Path) -> None:
    with agent(trials.Packed, tmp_path) as driver:
        driver.assign(0, [lane_of(0, stop=2, save=True), lane_of(1, stop=1, save=True)])
        driver.wait(lambda: len(driver.of(CheckpointCommitted)) == 2)
        loads = [CheckpointRef(node(0), 2), CheckpointRef(node(1), 1)]
        driver.assign(2, [lane_of(0, loads[0], start=2), lane_of(1, loads[1], start=1)])
        driver.wait(lambda: len(driver.of(TrainingEnded, 2)) == 2)
        found = driver.of(Reported, 2)
    assert [(report.lane, report.resource, report.metrics["accuracy"]) for report in found] == [
        (0, 3, 1.5),
        (1, 2, 2.0),
        (1, 3, 3.0),
    ]


def test_a_stop_of_one_lane_leaves_the_others_training(tmp_path: Path) -> None:
    with agent(trials.Packed, tmp_path) as driver:
        driver.assign(
            0, [lane_of(0, stop=500_000, max_resource=500_000), lane_of(1, stop=500_000, max_resource=500_000)]
        )
        driver.first(Reported)
        driver.deliver(StopTraining(lease(0), "not worth it", 1))
        driver.wait(lambda: any(end.lane == 1 for end in driver.of(TrainingEnded)))
        (end,) = driver.of(TrainingEnded)
        assert (end.lane, end.outcome) == (1, Outcome.STOPPED)
        before = len(driver.of(Reported))
        driver.wait(lambda: len(driver.of(Reported)) > before + 10)
        assert {report.lane for report in driver.of(Reported)[-5:]} == {0}
        driver.deliver(StopTraining(lease(0), "not worth it", 0))
        assert ends(driver, 2)[0].outcome is Outcome.STOPPED


def test_process_death_costs_each_lane_its_attempt_and_next_work_trains(tmp_path: Path) -> None:
    with agent(trials.Packed, tmp_path) as driver:
        driver.assign(0, [lane_of(0, stop=1), lane_of(1, params={"dies_at": 2}), lane_of(2)])
        found = ends(driver, 3)
        assert found[0].outcome is Outcome.REACHED
        assert [found[lane].error_kind for lane in (1, 2)] == [KILLED] * 2
        assert [found[lane].resource for lane in (1, 2)] == [1, 1]
        driver.assign(3, [lane_of(0), lane_of(1)])
        driver.wait(lambda: len(driver.of(TrainingEnded, 3)) == 2)
    assert {end.outcome for end in driver.of(TrainingEnded, 3)} == {Outcome.RETURNED}


def test_alone_a_trial_is_charged_with_the_end_of_its_process(tmp_path: Path) -> None:
    with agent(trials.Packed, tmp_path) as driver:
        driver.assign(0, [lane_of(1, params={"dies_at": 2})])
        assert driver.end(0).error_kind == "signal"


def test_a_packs_output_is_in_the_log_of_its_first_lane_still_training(tmp_path: Path) -> None:
    with agent(trials.Packed, tmp_path) as driver:
        driver.assign(0, [lane_of(0, stop=1), lane_of(1), lane_of(2)])
        ends(driver, 3)
        lines = [(batch.lane, line.text) for batch in driver.of(LogLines) for line in batch.lines]
    assert [text for _, text in lines] == ["a unit of 3", "a unit of 2", "a unit of 2"]
    assert [lane for lane, _ in lines] == sorted(lane for lane, _ in lines)


def test_a_trainable_that_cannot_be_packed_trains_its_lanes_in_turn(tmp_path: Path) -> None:
    with agent(trials.good, tmp_path) as driver:
        driver.assign(0, [lane_of(0), lane_of(1)])
        assert {end.outcome for end in ends(driver, 2).values()} == {Outcome.RETURNED}
        assert [(report.lane, report.resource) for report in driver.of(Reported)] == [
            (lane, resource) for lane in (0, 1) for resource in (1, 2, 3)
        ]
