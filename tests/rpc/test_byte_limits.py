"""Bytes are bounded, not messages: what one worker leaves unread, or says without end, fills no driver."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from asyncsearch.actions import StopTraining
from asyncsearch.errors import ProtocolError
from asyncsearch.ids import WorkerId
from asyncsearch.rpc.auth import make_identity
from asyncsearch.rpc.messages import GangNote
from asyncsearch.rpc.server import SearchServer
from asyncsearch.rpc.sessions import Session
from tests.rpc.tools import LEASE, Agent, Driver, Recorder, hello, report

MIB = 1 << 20
W3 = WorkerId(3)


@pytest.mark.parametrize("length", [2_000, 60_000])
def test_rank_notes_wait_for_a_worker_up_to_8_mib_and_its_orders_always(length: int) -> None:
    server = SearchServer(Recorder(), make_identity())
    session = Session(W3, 1, "agent")
    server._sessions.put(W3, session)
    note = GangNote(LEASE, 1, "key", "x" * length)
    server.send(W3, 1, note)
    outbox = session.outbox
    size_bytes = outbox.size_bytes
    for _ in range(8 * MIB // size_bytes - 1):
        outbox.add(bytes(size_bytes))
    with pytest.raises(ProtocolError, match=r"worker-3 has left \d+ messages of \d+ bytes unacknowledged"):
        server.send(W3, 1, note)
    assert 8 * MIB - size_bytes < outbox.size_bytes <= 8 * MIB, "what was refused waits for nobody"
    server.send(W3, 1, StopTraining(LEASE, "it is over"))
    outbox.acknowledge(2)
    server.send(W3, 1, note)


def test_a_worker_is_not_let_go_for_many_small_notes_of_other_ranks() -> None:
    server = SearchServer(Recorder(), make_identity())
    session = Session(W3, 1, "agent")
    server._sessions.put(W3, session)
    note = GangNote(LEASE, 1, "key", "")
    for _ in range(5_000):
        server.send(W3, 1, note)
    with pytest.raises(ProtocolError, match="worker-3 has left 5000 messages"):
        server.send(W3, 1, note)
    assert server._sessions.find(W3, 1) is session
    server.send(W3, 1, StopTraining(LEASE, "it is over"))


def test_a_worker_has_room_for_128_mib_of_messages_that_are_not_durable() -> None:
    session = Session(W3, 1, "agent")
    for number in range(1, 32):
        session.take(number, 4 * MIB)
        assert session.has_room.is_set()
    session.take(32, 4 * MIB)
    assert not session.has_room.is_set()
    session.settle(0)
    assert not session.has_room.is_set()
    session.settle(1)
    assert session.has_room.is_set()
    session.settle(32)
    session.take(33, 127 * MIB)
    assert session.has_room.is_set(), "what is durable counts no more"


def test_no_more_of_a_worker_is_read_until_some_of_it_is_durable(
    driver: Driver, attach: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncsearch.rpc.sessions._UNREAD_BYTES", 1)
    driver.handler.acknowledges = False
    eager, other = attach(hello(worker=3)), attach(hello(worker=4))
    for resource in range(1, 21):
        eager.connection.send(report(resource))
    driver.handler.messages.wait(bool)
    assert not eager.connection.flush(0.05)
    other.connection.send(report(1, worker=4))
    driver.handler.messages.wait(lambda messages: any(sender == 4 for sender, _, _ in messages))

    def settle(number: int) -> None:
        driver.handler.messages.wait(lambda _: len(driver.handler.resources()) >= number)
        assert driver.handler.resources() == list(range(1, number + 1))
        driver.call(lambda: driver.server.acknowledge(W3, 1, number))

    for number in range(1, 21):
        settle(number)
    assert driver.handler.resources() == list(range(1, 21))
