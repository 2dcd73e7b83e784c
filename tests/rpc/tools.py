"""A driver that records what it hears, and workers that say what a test wants."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import grpc

from asyncsearch.errors import StaleLeaseError
from asyncsearch.events import Reported
from asyncsearch.ids import Lease, WorkerId
from asyncsearch.rpc.auth import Identity, channel_credentials, make_identity
from asyncsearch.rpc.channel import MAX_MESSAGE_BYTES, METHOD, SERVICE, Keepalive, client_options
from asyncsearch.rpc.client import Connection
from asyncsearch.rpc.convert import encode_worker, frame
from asyncsearch.rpc.messages import DriverMessage, Endpoint, Heartbeat, Hello, WorkerMessage
from asyncsearch.rpc.server import SearchServer
from tests.rpc.proxy import PATIENCE_S

T = TypeVar("T")

AGENT = "agent-a"
LEASE = Lease(number=7, worker=WorkerId(3), epoch=1)


def hello(worker: int = 3, epoch: int = 1, agent: str = AGENT) -> Hello:
    return Hello(WorkerId(worker), epoch, agent, host="host", pid=1)


def report(resource: int, worker: int = 3) -> Reported:
    return Reported(Lease(7, WorkerId(worker), 1), resource, {"loss": 0.5})


class Happenings:
    """A list that one thread fills and another one waits on."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._items: list[Any] = []

    def add(self, item: Any) -> None:
        with self._changed:
            self._items.append(item)
            self._changed.notify_all()

    @property
    def all(self) -> list[Any]:
        with self._changed:
            return list(self._items)

    def wait(self, is_enough: Callable[[list[Any]], bool]) -> list[Any]:
        with self._changed:
            assert self._changed.wait_for(lambda: is_enough(self._items), PATIENCE_S), self._items
            return list(self._items)

    def wait_for(self, item: Any, times: int = 1) -> None:
        self.wait(lambda items: items.count(item) >= times)


class Recorder:
    """A handler that writes down what it is told, and acknowledges it at once unless told otherwise."""

    def __init__(self) -> None:
        self.server: SearchServer | None = None
        self.told = Happenings()
        self.messages = Happenings()
        self.refused_epoch = 0
        self.acknowledges = True

    def attached(self, hello: Hello, peer: str) -> None:
        if hello.epoch <= self.refused_epoch:
            raise StaleLeaseError(f"epoch {hello.epoch} is over")
        self.told.add(("attached", hello.worker, hello.epoch, hello.agent))

    def received(self, worker: WorkerId, epoch: int, number: int, message: WorkerMessage) -> None:
        if isinstance(message, Heartbeat):
            self.told.add(("heartbeat", worker, epoch))
            return
        self.messages.add((worker, number, message))
        if self.acknowledges:
            assert self.server is not None
            self.server.acknowledge(worker, epoch, number)

    def detached(self, worker: WorkerId, epoch: int) -> None:
        self.told.add(("detached", worker, epoch))

    def resources(self, worker: int = 3) -> list[int]:
        return [message.resource for sender, _, message in self.messages.all if sender == worker]


class Driver:
    """A server in a loop's thread, as the driver has it."""

    def __init__(self, identity: Identity | None = None, **options: Any) -> None:
        self.identity = identity or make_identity()
        self.handler = Recorder()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="driver-loop")
        self._thread.start()
        self.server = self.call(lambda: SearchServer(self.handler, self.identity, **options))
        self.handler.server = self.server
        self.port = self.run(self.server.start("127.0.0.1"))
        self.endpoint = self.identity.endpoint(f"127.0.0.1:{self.port}")

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE_S)

    def call(self, function: Callable[[], T]) -> T:
        """Call in the loop's thread."""

        async def called() -> T:
            return function()

        result: T = self.run(called())
        return result

    def send(self, message: DriverMessage, worker: int = 3, epoch: int = 1) -> None:
        self.call(lambda: self.server.send(WorkerId(worker), epoch, message))

    def stop(self) -> None:
        if self.loop.is_running():
            self.run(self.server.stop())
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()


class Agent:
    """A connection, and what comes out of it."""

    def __init__(self, endpoint: Endpoint, hello: Hello, **options: Any) -> None:
        self.delivered = Happenings()
        self.ends = Happenings()
        self.connection = Connection(
            endpoint, hello, deliver=self.delivered.add, closed=self.ends.add, **{"reconnect_s": PATIENCE_S, **options}
        )

    def end(self) -> Exception | None:
        error: Exception | None = self.ends.wait(bool)[0]
        return error


class RawStream:
    """A worker that says what no worker says."""

    def __init__(self, endpoint: Endpoint, credentials: grpc.ChannelCredentials | None = None) -> None:
        options = client_options(Keepalive(), 2 * MAX_MESSAGE_BYTES)
        self._channel = grpc.secure_channel(
            endpoint.address, credentials or channel_credentials(endpoint), options=options
        )

    def begin(self) -> Any:
        """Open a stream that says nothing until it is cancelled."""
        attach = self._channel.stream_stream(
            f"/{SERVICE}/{METHOD}", request_serializer=None, response_deserializer=None
        )
        silence = threading.Event()
        call: Any = attach(iter(lambda: silence.wait(PATIENCE_S), None))
        call.add_callback(silence.set)
        return call

    def say(self, *messages: bytes, method: str = METHOD, then: Iterable[bytes] = ()) -> tuple[grpc.StatusCode, str]:
        """Send messages, and return with which status and words the driver closes the stream."""
        over = threading.Event()

        def requests() -> Iterator[bytes]:
            yield from messages
            yield from then
            over.wait(PATIENCE_S)

        attach = self._channel.stream_stream(
            f"/{SERVICE}/{method}", request_serializer=None, response_deserializer=None
        )
        call: Any = attach(requests())
        try:
            for _ in call:
                pass
        except grpc.RpcError:
            pass
        finally:
            over.set()
        return call.code(), call.details()

    def close(self) -> None:
        self._channel.close()


def hello_bytes(ack: int = 0, **changes: Any) -> bytes:
    return frame(0, ack, encode_worker(hello(**changes)))


def report_bytes(number: int, resource: int = 1, ack: int = 0) -> bytes:
    return frame(number, ack, encode_worker(report(resource)))
