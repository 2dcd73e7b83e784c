from __future__ import annotations

import pytest

from asyncsearch.errors import OtherProtocolError, ProtocolError, StaleLeaseError
from asyncsearch.ids import WorkerId
from asyncsearch.rpc.messages import PROTOCOL, Hello
from asyncsearch.rpc.sessions import Session, Sessions
from tests.rpc.tools import hello

WORKER = WorkerId(3)


@pytest.fixture
def sessions() -> Sessions:
    """Epoch 2 of worker 3 is held by agent-a."""
    sessions = Sessions()
    sessions.put(WORKER, sessions.admit(hello(epoch=2), ack=0))
    return sessions


def test_the_same_process_goes_on_with_its_session(sessions: Sessions) -> None:
    assert sessions.admit(hello(epoch=2), ack=0) is sessions.find(WORKER, 2)


def test_a_worker_that_comes_back_acknowledges_what_it_has_received(sessions: Sessions) -> None:
    session = sessions.of(WORKER)
    assert session is not None
    session.outbox.add(b"a")
    session.outbox.add(b"b")
    sessions.admit(hello(epoch=2), ack=1)
    assert session.outbox.pending(after=0) == [(2, b"b")]


def test_a_higher_epoch_is_a_new_session(sessions: Sessions) -> None:
    assert sessions.admit(hello(epoch=3, agent="agent-b"), ack=0).epoch == 3
    assert sessions.find(WORKER, 2) is not None, "admitting changes nothing"


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_rival_is_refused(sessions: Sessions, epoch: int) -> None:
    with pytest.raises(
        StaleLeaseError, match=f"worker-3, epoch {epoch}, came as process agent-b; epoch 2 is held by agent-a"
    ):
        sessions.admit(hello(epoch=epoch, agent="agent-b"), ack=0)


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_launch_that_is_over_is_refused(sessions: Sessions, epoch: int) -> None:
    assert isinstance(sessions.end(WORKER, 2, "it was silent"), Session)
    with pytest.raises(StaleLeaseError, match=f"worker-3, epoch {epoch}, is over; epoch 2 ended: it was silent"):
        sessions.admit(hello(epoch=epoch), ack=0)
    assert sessions.admit(hello(epoch=3), ack=0).epoch == 3


def test_ending_an_older_launch_leaves_the_present_one(sessions: Sessions) -> None:
    assert sessions.end(WORKER, 1, "lost") is None
    assert sessions.find(WORKER, 2) is not None


def test_a_worker_that_knows_another_driver_is_refused(sessions: Sessions) -> None:
    with pytest.raises(StaleLeaseError, match="comes back to a driver that does not know it"):
        sessions.admit(hello(worker=4), ack=1)


def test_a_worker_that_acknowledges_what_was_never_sent_is_refused(sessions: Sessions) -> None:
    with pytest.raises(ProtocolError, match="ack"):
        sessions.admit(hello(epoch=2), ack=1)


def test_another_version_of_the_protocol_is_refused(sessions: Sessions) -> None:
    with pytest.raises(
        OtherProtocolError, match=f"version {PROTOCOL + 1} of the protocol and the driver version {PROTOCOL}"
    ):
        sessions.admit(Hello(WORKER, 3, "agent-b", protocol=PROTOCOL + 1), ack=0)
