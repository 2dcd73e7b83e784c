"""Which workers are asked back, and when: no more than others wait for, and none that is not needed after all.

And who gets those that have come back.
"""

from __future__ import annotations

from typing import Any

import pytest

from asyncsearch.fair.broker import SetShare, StudyJoined, StudyLeft, TimePassed, WorkerBroker, WorkersNeeded


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
