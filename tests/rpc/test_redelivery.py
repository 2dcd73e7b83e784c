from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.errors import ProtocolError
from asyncsearch.rpc.redelivery import Inbox, Outbox


def test_messages_are_numbered_from_one() -> None:
    outbox = Outbox[str]()
    assert [outbox.add("a"), outbox.add("b")] == [1, 2]
    assert outbox.pending(after=0) == [(1, "a"), (2, "b")]
    assert outbox.pending(after=1) == [(2, "b")]


def test_what_is_acknowledged_is_forgotten_and_a_late_one_changes_nothing() -> None:
    outbox = Outbox[str]()
    for message in "abc":
        outbox.add(message)
    outbox.acknowledge(2)
    outbox.acknowledge(1)
    assert outbox.pending(after=0) == [(3, "c")]
    assert (len(outbox), outbox.acknowledged) == (1, 2)


def test_acknowledging_what_was_never_sent_is_an_error_and_changes_nothing() -> None:
    outbox = Outbox[str]()
    outbox.add("a")
    with pytest.raises(ProtocolError, match="ack: message 2 was acknowledged, and 1 is the last"):
        outbox.acknowledge(2)
    assert outbox.pending(after=0) == [(1, "a")]


def test_a_full_outbox_says_so_and_drops_nothing() -> None:
    outbox = Outbox[str](limit=2)
    was_full = [outbox.is_full for message in "abc" if outbox.add(message)]
    assert was_full == [False, True, True]
    assert [number for number, _ in outbox.pending(after=0)] == [1, 2, 3]
    outbox.acknowledge(2)
    assert not outbox.is_full


def test_an_outbox_is_full_by_bytes_and_has_room_again_once_acknowledged() -> None:
    outbox = Outbox[bytes](limit=100, limit_bytes=10)
    found = []
    for body in (b"12345", b"67890"):
        outbox.add(body)
        found.append((outbox.is_full, outbox.size_bytes))
    outbox.acknowledge(1)
    assert [*found, (outbox.is_full, outbox.size_bytes)] == [(False, 5), (True, 10), (False, 5)]


def test_a_duplicate_is_not_accepted_and_a_gap_is_an_error() -> None:
    inbox = Inbox()
    assert inbox.accept(1)
    assert not inbox.accept(1)
    with pytest.raises(ProtocolError, match="number: message 3 came after 1"):
        inbox.accept(3)
    assert inbox.last == 1
    assert inbox.accept(2)


class Line:
    """One direction of a stream that may break at any moment, and two ends that live on."""

    def __init__(self) -> None:
        self.outbox = Outbox[bytes]()
        self.inbox = Inbox()
        self.delivered: list[bytes] = []
        self.written = 0
        self.on_the_way: list[tuple[int, bytes]] = []
        self.acks_on_the_way: list[int] = []

    def step(self, what: str) -> None:
        if what == "add":
            self.outbox.add(b"%d" % (self.outbox.last + 1))
        elif what == "write":
            for number, message in self.outbox.pending(self.written)[:2]:
                self.on_the_way.append((number, message))
                self.written = number
        elif what == "arrive" and self.on_the_way:
            number, message = self.on_the_way.pop(0)
            if self.inbox.accept(number):
                self.delivered.append(message)
            self.acks_on_the_way.append(self.inbox.last)
        elif what == "repeat" and self.on_the_way:
            self.on_the_way.insert(0, self.on_the_way[0])
        elif what == "ack" and self.acks_on_the_way:
            self.outbox.acknowledge(self.acks_on_the_way.pop(0))
        elif what == "break":
            self.written = 0
            self.on_the_way.clear()
            self.acks_on_the_way.clear()


@given(st.lists(st.sampled_from(["add", "write", "arrive", "arrive", "repeat", "ack", "break"]), max_size=200))
def test_each_message_is_delivered_once_in_order_however_streams_break(steps: list[str]) -> None:
    line = Line()
    for step in steps:
        line.step(step)
    while line.outbox.pending(0):
        for step in ("break", "write", "arrive", "arrive", "ack", "ack"):
            line.step(step)
    assert line.delivered == [b"%d" % number for number in range(1, line.outbox.last + 1)]
    assert line.outbox.size_bytes == 0
