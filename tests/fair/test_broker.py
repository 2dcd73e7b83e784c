"""The broker: what studies may have never exceeds the cluster, turns are long, and everybody has its part in time."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.fair.broker import StudyJoined, WorkerBroker, WorkersNeeded
from tests.examples import examples
from tests.fair.world import World


def test_three_weights_on_sixty_workers_have_ten_twenty_and_thirty() -> None:
    world = World(60)
    for study, weight in (("a", 1), ("b", 2), ("c", 3)):
        world.join(study, 100, weight)
    world.pass_time(60.0)
    assert world.held() == {"a": 10, "b": 20, "c": 30}


def test_on_two_workers_studies_take_long_turns_in_proportion() -> None:
    world = World(2, turn_s=30.0)
    for study, weight in (("a", 1), ("b", 2), ("c", 3)):
        world.join(study, 9, weight)
    world.pass_time(1800.0)
    part = {study: served / 3600 for study, served in world.served.items()}
    assert part == pytest.approx({"a": 1 / 6, "b": 2 / 6, "c": 3 / 6}, abs=0.015)
    assert len(world.moves) < 1800 / 15, "a worker changes its study at most once in half a turn"


@pytest.mark.parametrize("turn_s", [30.0, 7200.0])
def test_more_studies_than_workers_are_all_served_however_long_their_turns(turn_s: float) -> None:
    world = World(1, turn_s=turn_s, stage_s=turn_s / 6)
    for number in range(5):
        world.join(str(number), 3)
    world.pass_time(60 * turn_s)
    assert all(served == pytest.approx(12 * turn_s, rel=0.1) for served in world.served.values())


def test_a_newcomer_has_its_share_within_one_stage() -> None:
    world = World(60)
    world.join("a", 100)
    world.pass_time(20.0)
    assert world.held() == {"a": 60}
    world.join("b", 100)
    world.pass_time(5.0)
    assert world.held() == {"a": 30, "b": 30}


def test_a_study_that_needs_fewer_gives_to_others_and_a_waiting_one_has_0() -> None:
    world = World(12)
    for study in ("a", "b"):
        world.join(study, 12)
    world.pass_time(10.0)
    world.needs["a"] = 0
    world.report("a")
    world.pass_time(10.0)
    assert world.held() == {"a": 0, "b": 12}


def test_a_need_that_falls_for_a_moment_moves_no_worker() -> None:
    world = World(4, settle_s=1.0)
    for study in ("a", "b"):
        world.join(study, 4)
    world.pass_time(10.0)
    moves = len(world.moves)
    for _ in range(20):
        world.needs["a"] = 1
        world.report("a")
        world.pass_time(0.5)
        world.needs["a"] = 4
        world.report("a")
        world.pass_time(3.0)
    assert len(world.moves) == moves


def test_workers_that_nobody_else_needs_are_not_asked_back() -> None:
    world = World(4)
    world.join("a", 4)
    world.pass_time(10.0)
    world.needs["a"] = 1
    world.report("a")
    world.pass_time(10.0)
    assert world.broker.share_of("a") == 4


def test_where_others_use_the_cluster_long_unused_workers_are_returned() -> None:
    world = World(4, spare_s=10.0)
    world.join("a", 4)
    world.pass_time(10.0)
    world.needs["a"] = 1
    world.report("a")
    world.pass_time(10.5)  # a second of them for the need to count
    assert world.broker.share_of("a") == 4
    world.pass_time(6.0)
    assert (world.broker.share_of("a"), world.held()) == (1, {"a": 1})
    world.needs["a"] = 3
    world.report("a")
    world.pass_time(0.5)
    assert world.held() == {"a": 3}


def test_workers_not_returned_at_a_boundary_are_asked_for_after_the_unit() -> None:
    world = World(2, stage_s=10_000.0, patience_s=60.0)
    world.join("a", 2)
    world.pass_time(1.0)
    world.join("b", 2)
    world.pass_time(59.0)
    assert world.held() == {"a": 2, "b": 0}
    world.pass_time(2.0)
    assert world.held() == {"a": 1, "b": 1}


def test_a_higher_priority_is_filled_first() -> None:
    world = World(8)
    world.join("low", 8)
    world.pass_time(10.0)
    world.join("high", 6, priority=1)
    world.pass_time(10.0)
    assert world.held() == {"low": 2, "high": 6}


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(1, 9), st.integers(0, 10_000))
def test_whatever_studies_do_they_never_have_more_workers_than_there_are(workers: int, seed: int) -> None:
    draw = random.Random(seed)
    world = World(workers, seed, stage_s=draw.choice([5.0, 50.0]), turn_s=3.0, patience_s=10.0)
    for number in range(40):
        studies = list(world.needs)
        match draw.choice(["join", "leave", "need", "need", "lose", "lose", "relaunch", "deliver", "time", "time"]):
            case "join" if len(studies) < 5:
                world.join(
                    str(number),
                    draw.randint(0, 9),
                    draw.choice([0.5, 1, 3]),
                    draw.choice([None, 2]),
                    draw.randint(0, 1),
                )
            case "leave" if studies:
                world.leave(draw.choice(studies))
            case "need" if studies:
                study = draw.choice(studies)
                world.needs[study] = draw.randint(0, 9)
                world.report(study)
            case "lose" if studies:
                world.lose(draw.choice(studies))
            case "relaunch":
                world.relaunch()
            case "deliver":
                world.deliver()
            case _:
                world.pass_time(draw.uniform(0.0, 10.0))
        world.check()
    for study in world.needs:
        world.needs[study] = 3
        world.report(study)
    before = dict(world.served)
    world.pass_time(300.0)
    high = max((world.broker._members[study].demand.priority for study in world.needs), default=0)
    for study in world.needs:
        if world.broker._members[study].demand.priority == high:
            assert world.served[study] > before[study], "nobody of the highest priority starves"
    total = sum(world.held().values())
    could = sum(world.broker._members[study].demand.limit for study in world.needs)
    assert total >= min(workers, could)


def test_a_patience_of_no_time_leaves_a_study_time_to_give_back() -> None:
    broker = WorkerBroker(2, patience_s=1e-300)
    for study in "ab":
        broker.handle(StudyJoined(study), 1000.0)
    broker.handle(WorkersNeeded("a", 2, 0, 0), 1000.0)
    broker.handle(WorkersNeeded("a", 2, 2, 2), 1000.0)
    broker.handle(WorkersNeeded("b", 2, 0, 0), 1000.0)
    due_s = broker.next_due()
    assert due_s is not None
    assert due_s > 1000.0
