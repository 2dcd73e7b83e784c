"""Whoever has no certificate of a worker gets no further than the handshake, and takes no worker's place."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator

import grpc
import msgspec
import pytest

from asyncsearch.rpc.auth import TARGET_NAME, make_identity
from asyncsearch.rpc.connection_limits import ConnectionLimits
from asyncsearch.rpc.messages import Endpoint
from tests.rpc.proxy import PATIENCE_S
from tests.rpc.tools import Agent, Driver, RawStream, hello, hello_bytes, report

LIMITS = ConnectionLimits(connections=8, greetings=2, handshake_s=2.0)


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver(limits=LIMITS)
    yield driver
    driver.stop()


def attached(endpoint: Endpoint, worker: int) -> Agent:
    agent = Agent(endpoint, hello(worker))
    agent.connection.open()
    return agent


def with_spare(driver: Driver) -> Endpoint:
    return driver.identity.endpoint(driver.endpoint.address, driver.server.spare_port)


@contextlib.contextmanager
def idle_connections(port: int, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as opened:
        yield [opened.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(count)]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def speak(driver: Driver, client: Callable[[ssl.SSLContext], None]) -> bytes:
    """Return what the driver answers to HTTP/2's first words inside TLS."""
    context = ssl.create_default_context(cadata=driver.endpoint.certificate_pem.decode())
    context.set_alpn_protocols(["h2"])
    client(context)
    answer = b""
    with socket.create_connection(("127.0.0.1", driver.port)) as plain, contextlib.suppress(OSError):
        plain.settimeout(PATIENCE_S)
        with context.wrap_socket(plain, server_hostname=TARGET_NAME) as secure:
            secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            answer = secure.recv(4096)
    return answer


def certificate_of(endpoint: Endpoint) -> Callable[[ssl.SSLContext], None]:
    def load(context: ssl.SSLContext) -> None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(endpoint.worker_key_pem + endpoint.worker_certificate_pem)
            file.flush()
            context.load_cert_chain(file.name)

    return load


def test_http2_is_spoken_with_the_certificate_of_a_worker_alone(driver: Driver) -> None:
    assert speak(driver, certificate_of(driver.endpoint))
    assert speak(driver, lambda context: None) == b""
    assert speak(driver, certificate_of(make_identity().endpoint("x:1"))) == b""


def test_a_worker_cannot_pass_for_the_driver() -> None:
    identity = make_identity()
    posing = msgspec.structs.replace(
        identity, key_pem=identity.worker_key_pem, certificate_pem=identity.worker_certificate_pem
    )
    impostor = Driver(identity=posing)
    stream = RawStream(identity.endpoint(impostor.endpoint.address))
    code, _ = stream.say(hello_bytes())
    stream.close()
    impostor.stop()
    assert code is grpc.StatusCode.UNAVAILABLE
    assert impostor.handler.told.all == []


def test_idle_strangers_hold_a_limited_number_of_descriptors(driver: Driver) -> None:
    before = descriptors()
    with idle_connections(driver.port, 60) as strangers:
        for stranger in strangers[LIMITS.connections :]:
            stranger.settimeout(PATIENCE_S)
            with contextlib.suppress(OSError):
                assert stranger.recv(1) == b"", "a connection above the limit is closed at once"
        # Each stranger has a descriptor of its own here, since both sides are one process.
        assert descriptors() - before - len(strangers) <= LIMITS.connections + 4


def test_attached_and_known_workers_are_served_while_strangers_fill_ports(
    driver: Driver,
) -> None:
    first = attached(with_spare(driver), 1)
    with idle_connections(driver.port, 60):
        second = attached(with_spare(driver), 2)
        for worker, agent in ((1, first), (2, second)):
            agent.connection.send(report(1, worker))
            assert agent.connection.flush(PATIENCE_S)
            assert agent.ends.all == []
            agent.connection.close()
    assert driver.handler.told.all.count(("attached", 1, 1, "agent-a")) == 1


def test_strangers_are_shown_out_when_their_handshake_takes_too_long(driver: Driver) -> None:
    with idle_connections(driver.port, LIMITS.connections) as strangers:
        for stranger in strangers:
            stranger.settimeout(PATIENCE_S)
            assert stranger.recv(1) == b""
        agent = attached(driver.endpoint, 1)
        agent.connection.close()


def test_ungreeted_streams_of_one_address_are_limited_and_others_may_retry(driver: Driver) -> None:
    silent = [RawStream(driver.endpoint) for _ in range(LIMITS.greetings)]
    calls = [stream.begin() for stream in silent]
    late = RawStream(driver.endpoint)
    while driver.call(lambda: sum(driver.server._greeting.values())) < LIMITS.greetings:
        pass
    code, words = late.say()
    assert (code, "have not sent their Hello" in words) == (grpc.StatusCode.UNAVAILABLE, True)
    for call in calls:
        call.cancel()
    agent = attached(driver.endpoint, 1)
    agent.connection.close()
    for stream in (*silent, late):
        stream.close()
