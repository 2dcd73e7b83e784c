"""How long each attempt to attach may take."""

from __future__ import annotations

from asyncsearch.rpc.redelivery import attempt_limit


def test_each_attempt_may_take_twice_as_long_as_the_one_before() -> None:
    assert [attempt_limit(attempt, 1e9) for attempt in range(4)] == [10.0, 20.0, 40.0, 80.0]


def test_no_attempt_takes_longer_than_the_worker_waits_for_its_driver() -> None:
    assert [attempt_limit(attempt, 15.0) for attempt in (0, 1, 10_000)] == [10.0, 15.0, 15.0]


def test_an_attempt_is_made_though_no_time_is_left() -> None:
    assert attempt_limit(0, -1.0) == attempt_limit(9, 0.0) == 0.1
