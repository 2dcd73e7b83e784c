"""Launches that share few cores wait for the first worker, and none of them is forgotten."""

from __future__ import annotations

from asyncsearch.driver.dispatcher import LaunchOrder
from asyncsearch.ids import WorkerId

FIRST, SECOND, THIRD = ((WorkerId(number), 1) for number in range(3))


def test_without_a_limit_each_launch_begins_at_once() -> None:
    order = LaunchOrder(None)
    assert [order.request(one) for one in (FIRST, SECOND)] == [[FIRST], [SECOND]]


def test_launches_beyond_the_limit_begin_in_order_as_workers_attach() -> None:
    order = LaunchOrder(1)
    assert [order.request(one) for one in (FIRST, SECOND, THIRD)] == [[FIRST], [], []]
    assert order.release() == [SECOND, THIRD]
    assert order.request((WorkerId(0), 2)) == [(WorkerId(0), 2)]


def test_a_launch_that_ends_unattached_gives_its_place_to_the_next_one() -> None:
    order = LaunchOrder(2)
    assert [order.request(one) for one in (FIRST, SECOND, THIRD)] == [[FIRST], [SECOND], []]
    assert order.ended(FIRST) == [THIRD]
    assert order.ended(THIRD) == []


def test_a_launch_that_is_called_off_before_it_begins_never_does() -> None:
    order = LaunchOrder(1)
    order.request(FIRST)
    order.request(SECOND)
    assert [order.call_off(one) for one in (SECOND, FIRST)] == [True, False]
    assert order.release() == []
