"""The broker: what studies may have never exceeds the cluster, turns are long, and everybody has its part in time."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.fair.broker import WorkerBroker
from asyncsearch.fair.demands import SetShare, StudyJoined, StudyLeft, TimePassed, WorkersNeeded
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
            case event:
                world.happen(event, draw)
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


def having(workers: int, **held: int) -> WorkerBroker:
    """Return a broker of studies that have so many workers each and could use as many."""
    broker = WorkerBroker(workers, turn_s=1.0, settle_s=0.0)
    for study in held:
        broker.handle(StudyJoined(study), 0.0)
    for study, count in held.items():
        broker.handle(WorkersNeeded(study, count, 0, 0), 0.0)
        broker.handle(WorkersNeeded(study, count, count, count), 0.0)
    return broker


def join(broker: WorkerBroker, study: str, needs: int, now: float = 1.0) -> list[SetShare]:
    broker.handle(StudyJoined(study), now)
    return broker.handle(WorkersNeeded(study, needs, 0, 0), now)


def test_no_more_are_asked_back_than_others_wait_for_however_often() -> None:
    broker = having(4, a=2, b=2)
    for study in ("a", "b"):
        assert broker.handle(WorkersNeeded(study, 1, 2, 2), 0.0) == [], "nobody waits"
    asked = join(broker, "c", 1)
    assert [order.workers for order in asked] == [1]
    assert broker.handle(TimePassed(), 2.0) == []
    assert broker.handle(WorkersNeeded("c", 1, 0, 0), 3.0) == []
    assert broker.handle(WorkersNeeded(asked[0].study, 1, 1, 1), 4.0) == [SetShare("c", 1)]


def test_a_worker_asked_for_in_vain_stays_with_the_study_that_has_it() -> None:
    broker = having(2, a=2)
    assert join(broker, "b", 2) == [SetShare("a", 1)]
    assert broker.handle(WorkersNeeded("a", 2, 2, 1), 2.0) == []
    assert broker.handle(StudyLeft("b"), 3.0) == [SetShare("a", 2)]


def test_a_turn_does_not_end_before_its_worker_has_attached() -> None:
    broker = having(1, a=1)
    broker.handle(WorkersNeeded("a", 1, 1, 1, starting=1), 0.0)
    assert join(broker, "b", 1) == []
    assert broker.handle(TimePassed(), 500.0) == [], "its start takes long"
    assert broker.handle(WorkersNeeded("a", 1, 1, 1), 501.0) == [SetShare("a", 0)]


@pytest.mark.parametrize(("terms", "shares"), [({"weight": 3.0}, {"a": 1, "b": 2}), ({"priority": 1}, {"b": 3})])
def test_first_returned_workers_go_by_priority_then_by_least_for_weight(
    terms: dict[str, Any], shares: dict[str, int]
) -> None:
    broker = having(8, old=8)
    for study, own in (("a", {}), ("b", terms)):
        broker.handle(StudyJoined(study, **own), 1.0)
        broker.handle(WorkersNeeded(study, 6, 0, 0), 1.0)
    broker.handle(WorkersNeeded("old", 0, 8, broker.share_of("old")), 1.0)
    assert broker.share_of("old") == 0
    orders = broker.handle(WorkersNeeded("old", 0, 5, 0), 2.0)
    assert {order.study: order.workers for order in orders} == shares


def test_who_has_most_beyond_its_share_gives_first() -> None:
    broker = having(10, few=3, many=5)
    for study, held in (("few", 3), ("many", 5)):
        broker.handle(WorkersNeeded(study, 0, held, held), 0.0)
    assert {order.study: order.workers for order in join(broker, "new", 4)} == {"many": 3, "new": 2}


def test_what_is_asked_for_urgently_is_asked_for_again_only_after_as_long() -> None:
    broker = having(2, a=2)
    assert join(broker, "b", 2, now=1.0) == [SetShare("a", 1)]
    assert broker.handle(TimePassed(), 61.0) == [SetShare("a", 1, is_urgent=True)]
    assert broker.next_due() == 121.0, "else the clock would run at full speed"
