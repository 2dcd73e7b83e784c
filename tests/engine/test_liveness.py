"""Silence and deadlines, with time as an argument."""

from __future__ import annotations

from asyncsearch.engine.liveness import Deadlines, Liveness


def test_a_silent_worker_is_overdue_and_a_heard_one_is_not() -> None:
    liveness: Liveness[str] = Liveness(30.0)
    liveness.seen("a", 0.0)
    liveness.seen("b", 10.0)
    assert liveness.overdue(29.9) == []
    assert liveness.overdue(30.0) == [("a", 30.0)]
    liveness.seen("a", 31.0)
    assert liveness.overdue(40.0) == [("b", 30.0)]


def test_the_next_deadline_is_that_of_the_most_silent_worker() -> None:
    liveness: Liveness[str] = Liveness(30.0)
    assert liveness.next_deadline() is None
    liveness.seen("a", 0.0)
    liveness.seen("b", 5.0)
    liveness.seen("a", 8.0)
    assert liveness.next_deadline() == 35.0
    liveness.forget("b")
    assert liveness.next_deadline() == 38.0


def test_a_deadline_that_was_called_off_or_moved_does_not_expire() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 5.0)
    deadlines.set("b", 6.0)
    deadlines.set("b", 9.0)
    deadlines.call_off("a")
    assert deadlines.next_deadline() == 9.0
    assert deadlines.expired(8.0) == []
    assert deadlines.expired(9.0) == ["b"]
    assert deadlines.next_deadline() is None
