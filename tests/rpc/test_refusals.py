"""What the driver does with workers that break the contract; a healthy one goes on meanwhile."""

from __future__ import annotations

import logging
import os
import socket
import ssl
from collections.abc import Callable, Iterator

import grpc
import pytest

from asyncsearch.ids import WorkerId
from asyncsearch.rpc.auth import TARGET_NAME, bound, tls_credentials
from asyncsearch.rpc.channel import MAX_MESSAGE_BYTES, METHOD, SERVICE
from asyncsearch.rpc.convert import encode_worker, frame
from asyncsearch.rpc.messages import PROTOCOL, Hello
from tests.rpc.proxy import PATIENCE_S
from tests.rpc.tools import Agent, Driver, RawStream, hello, hello_bytes, report, report_bytes

HEALTHY = 9


@pytest.fixture
def healthy(driver: Driver, attach: Callable[..., Agent]) -> Iterator[Agent]:
    """A worker that notices nothing of what happens in the test."""
    agent = attach(hello(worker=HEALTHY))
    agent.connection.send(report(1, HEALTHY))
    driver.handler.messages.wait(lambda messages: len(messages) == 1)
    yield agent
    agent.connection.send(report(2, HEALTHY))
    assert agent.connection.flush(10)
    assert driver.handler.resources(HEALTHY) == [1, 2]
    assert agent.ends.all == []
    assert driver.handler.told.all.count(("attached", HEALTHY, 1, "agent-a")) == 1


@pytest.fixture
def stream(driver: Driver) -> Iterator[RawStream]:
    stream = RawStream(driver.endpoint)
    yield stream
    stream.close()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


REFUSED = {
    "not a message": ([b"\xff\xff"], grpc.StatusCode.INVALID_ARGUMENT, "2 bytes came that are no WorkerMessage"),
    "no hello": ([report_bytes(1)], grpc.StatusCode.INVALID_ARGUMENT, "Reported came before a Hello"),
    "empty": ([b""], grpc.StatusCode.INVALID_ARGUMENT, "body: is missing"),
    "bad hello": ([frame(0, 0, b"\x1a\x00")], grpc.StatusCode.INVALID_ARGUMENT, "epoch: 0 is not in 1"),
    "two hellos": ([hello_bytes(), hello_bytes()], grpc.StatusCode.INVALID_ARGUMENT, "a second Hello"),
    "other version": (
        [frame(0, 0, encode_worker(Hello(hello().worker, 1, "a", protocol=PROTOCOL + 1)))],
        grpc.StatusCode.UNIMPLEMENTED,
        f"version {PROTOCOL + 1} of the protocol",
    ),
    "malformed": ([hello_bytes(), b"\xff\xff"], grpc.StatusCode.INVALID_ARGUMENT, "2 bytes came"),
    "a gap": ([hello_bytes(), report_bytes(2)], grpc.StatusCode.INVALID_ARGUMENT, "message 2 came after 0"),
    "a false ack": (
        [hello_bytes(), report_bytes(1, ack=5)],
        grpc.StatusCode.INVALID_ARGUMENT,
        "ack: message 5 was acknowledged",
    ),
    "too large": (
        [hello_bytes(), bytes(MAX_MESSAGE_BYTES + 1)],
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "4194305 bytes are over the limit of 4194304",
    ),
    "far too large": (
        [hello_bytes(), bytes(5 * MAX_MESSAGE_BYTES)],
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "larger than max",
    ),
    "stale": ([hello_bytes(ack=3)], grpc.StatusCode.FAILED_PRECONDITION, "a driver that does not know it"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_broken_rule_closes_that_stream_with_its_status(
    case: str, driver: Driver, healthy: Agent, stream: RawStream, caplog: pytest.LogCaptureFixture
) -> None:
    messages, status, words = REFUSED[case]
    code, details = stream.say(*messages)
    assert (code, words in details) == (status, True), details
    if case != "far too large":
        assert sum(words in line for line in warnings(caplog)) == (case != "stale")
    assert driver.identity.token not in caplog.text


def test_a_peer_gets_one_line_a_minute_however_often_it_tries(
    driver: Driver, healthy: Agent, stream: RawStream, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        stream.say(b"\xff\xff")
    assert len(warnings(caplog)) == 1


def test_a_duplicate_is_ignored(driver: Driver, healthy: Agent, stream: RawStream) -> None:
    stream.say(hello_bytes(), report_bytes(1, 1), report_bytes(1, 1), report_bytes(2, 2), report_bytes(1, 1), b"\xff")
    assert driver.handler.resources() == [1, 2]


def test_an_epoch_that_the_driver_does_not_want_is_refused(driver: Driver, healthy: Agent, stream: RawStream) -> None:
    driver.handler.refused_epoch = 4
    assert stream.say(hello_bytes(epoch=4)) == (grpc.StatusCode.FAILED_PRECONDITION, "epoch 4 is over")
    assert not any(told[1] == 3 for told in driver.handler.told.all)


def test_a_rival_is_refused_and_the_holder_goes_on(driver: Driver, healthy: Agent, stream: RawStream) -> None:
    code, details = stream.say(hello_bytes(worker=HEALTHY, agent="agent-b"))
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "epoch 1 is held by agent-a" in details


def test_a_silent_stream_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    driver = Driver(hello_timeout_s=0.05)
    stream = RawStream(driver.endpoint)
    code, details = stream.say()
    assert (code, details) == (grpc.StatusCode.INVALID_ARGUMENT, "No Hello came within 0.05 s.")
    stream.close()
    driver.stop()


def test_a_failing_handler_closes_the_stream_and_is_logged(
    driver: Driver,
    healthy: Agent,
    stream: RawStream,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(driver.handler, "attached", fail)
    assert stream.say(hello_bytes()) == (grpc.StatusCode.INTERNAL, "The driver failed: ZeroDivisionError.")
    assert "a bug" in caplog.text


@pytest.mark.parametrize("token", ["wrong", None])
def test_a_wrong_or_missing_token_is_refused(
    token: str | None, driver: Driver, healthy: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    credentials = tls_credentials(driver.endpoint)
    if token is not None:
        credentials = grpc.composite_channel_credentials(credentials, grpc.access_token_call_credentials(token))
    stream = RawStream(driver.endpoint, credentials)
    for _ in range(2):
        code, details = stream.say(hello_bytes())
        assert code is grpc.StatusCode.UNAUTHENTICATED
        assert ("wrong" if token else "missing") in details
    stream.close()
    assert len(warnings(caplog)) == 1
    assert driver.identity.token not in caplog.text


def test_a_worker_cannot_attach_in_the_place_of_another(driver: Driver, healthy: Agent) -> None:
    stream = RawStream(bound(driver.endpoint, WorkerId(3), 1))
    for other in (hello_bytes(worker=4), hello_bytes(worker=HEALTHY, agent="agent-a"), hello_bytes(epoch=2)):
        code, details = stream.say(other)
        assert (code, "is of worker-3, epoch 1, and not" in details) == (grpc.StatusCode.UNAUTHENTICATED, True)
    assert {told[1] for told in driver.handler.told.all} == {HEALTHY}
    stream.say(hello_bytes(), b"\xff")
    assert ("attached", 3, 1, "agent-a") in driver.handler.told.all
    stream.close()


def test_an_unknown_method_is_refused(driver: Driver, healthy: Agent, stream: RawStream) -> None:
    assert stream.say(hello_bytes(), method="Steal")[0] is grpc.StatusCode.UNIMPLEMENTED


def test_a_client_without_tls_gets_nowhere(driver: Driver, healthy: Agent) -> None:
    with grpc.insecure_channel(driver.endpoint.address) as channel:
        call = channel.stream_stream(f"/{SERVICE}/{METHOD}", request_serializer=None, response_deserializer=None)
        with pytest.raises(grpc.RpcError) as error:
            list(call(iter([hello_bytes()])))
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE


def test_random_bytes_at_the_port_are_dropped(driver: Driver, healthy: Agent) -> None:
    with socket.create_connection(("127.0.0.1", driver.port)) as plain:
        plain.sendall(os.urandom(4096))
        plain.settimeout(PATIENCE_S)
        while plain.recv(4096):
            pass


def test_random_bytes_inside_tls_are_dropped(driver: Driver, healthy: Agent) -> None:
    context = ssl.create_default_context(cadata=driver.endpoint.certificate_pem.decode())
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", driver.port)) as plain,
        context.wrap_socket(plain, server_hostname=TARGET_NAME) as secure,
    ):
        secure.sendall(os.urandom(4096))
        secure.settimeout(PATIENCE_S)
        try:
            while secure.recv(4096):
                pass
        except OSError:
            pass
