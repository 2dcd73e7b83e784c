"""The driver's side of the contract in ``rpc/``: a gRPC server in the driver's asyncio loop.

All methods except ``start`` and ``stop`` are called in the loop's thread and return at once; so must the handler.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from asyncsearch.errors import DisconnectedError, InternalError, ProtocolError, StaleLeaseError
from asyncsearch.ids import WorkerId, worker_name
from asyncsearch.rpc.auth import Gate, Identity, require_launch, server_credentials
from asyncsearch.rpc.channel import (
    MAX_MESSAGE_BYTES,
    METHOD,
    SERVICE,
    Keepalive,
    require_size,
    server_options,
    status_of,
)
from asyncsearch.rpc.convert import Envelope, decode_worker, encode_driver
from asyncsearch.rpc.messages import DriverMessage, GangNote, Hello, StoreTokens, WorkerMessage
from asyncsearch.rpc.quiet_grpc import aio, grpc
from asyncsearch.rpc.reservation import ConnectionLimits, cannot_listen
from asyncsearch.rpc.sessions import RefusalLog, Session, Sessions, WorkerStream

if TYPE_CHECKING:
    from asyncsearch.rpc.sessions import Context

logger = logging.getLogger(__name__)

_NOTES_BYTES = 8 << 20
"""Most bytes that may wait for a worker while other ranks of its gang tell it something."""
_NOTES = 5_000
"""Most messages, likewise: at twice as many it would be let go, for messages of others."""


class Handler(Protocol):
    """The driver's callbacks for the server. Called in the loop's thread; must return at once."""

    def attached(self, hello: Hello, peer: str) -> None:
        """A worker opened a stream, for the first time or again; ``detached`` does not always come in between.

        Raises:
            StaleLeaseError: this launch of the worker is not wanted; the stream is closed with this message.
        """

    def received(self, worker: WorkerId, epoch: int, number: int, message: WorkerMessage) -> None:
        """A message arrived: each once, in order. ``number`` is 0 for a Heartbeat, which is never acknowledged."""

    def detached(self, worker: WorkerId, epoch: int) -> None:
        """The stream broke or ended; the worker may reattach. Not called after ``disconnect`` or ``stop``."""


class SearchServer:
    """Accepts the streams of workers, and keeps each worker's session across its streams."""

    def __init__(
        self,
        handler: Handler,
        identity: Identity,
        *,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        keepalive: Keepalive | None = None,
        hello_timeout_s: float = 10.0,
        limits: ConnectionLimits | None = None,
    ) -> None:
        """Make a server that does not listen yet.

        Args:
            max_message_bytes: a larger message closes its stream.
            hello_timeout_s: time that a new stream may take to send its ``Hello``.
            limits: of connections; by default those of a server for few workers.
        """
        self._handler = handler
        self._identity = identity
        self._gate = Gate(identity)
        self._max_message_bytes = max_message_bytes
        self._keepalive = keepalive or Keepalive()
        self._hello_timeout_s = hello_timeout_s
        self._limits = limits or ConnectionLimits()
        self._greeting: Counter[str] = Counter()
        """Address -> number of its streams whose Hello is awaited."""
        self.spare_port = 0
        """A second port, which only workers are told; set by ``start``."""
        self._sessions = Sessions()
        self._tokens: StoreTokens | None = None
        """The message that each worker gets before any other; None if there is none."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._refusals = RefusalLog()
        self._is_stopping = False
        self._server: aio.Server | None = None

    async def start(self, host: str, port: int = 0, spare_port: int = 0) -> int:
        """Listen, and return the port.

        Args:
            host: name or address of this machine; ``0.0.0.0`` for all its addresses.
            port: port to listen on; 0 for any free one.
            spare_port: likewise.

        Raises:
            ClusterError: the server cannot listen on the address.
        """
        server = aio.server(options=server_options(self._keepalive, self._max_message_bytes, self._limits))
        method = grpc.stream_stream_rpc_method_handler(self._serve)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: method}),))
        place = f"[{host}]" if ":" in host and not host.startswith("[") else host
        credentials = server_credentials(self._identity)
        try:
            bound = server.add_secure_port(f"{place}:{port}", credentials)
            # Each port has its own limit of connections: who fills the first one leaves workers this one.
            self.spare_port = server.add_secure_port(f"{place}:{spare_port}", credentials)
        except RuntimeError as error:
            raise cannot_listen(host, port, error) from None
        await server.start()
        self._server = server
        return bound

    async def stop(self, grace_s: float = 1.0) -> None:
        """Write pending messages, end all streams with OK, and stop listening.

        Args:
            grace_s: time that workers have to read pending messages.
        """
        self._is_stopping = True
        for session in self._sessions:
            if session.stream is not None:
                session.stream.close(None, drain=True)
        # grpc.aio prints a traceback for each stream that is open when it stops.
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        if self._server is not None:
            await self._server.stop(grace_s)

    def send(self, worker: WorkerId, epoch: int, message: DriverMessage) -> None:
        """Send a message to a launch of a worker: it arrives once and in order as long as both processes live.

        Raises:
            ProtocolError: the message does not match the contract, or is over the size limit; or it is a note of
                another rank, and so many bytes are unacknowledged already that it would be that rank's doing.
        """
        session = self._sessions.find(worker, epoch)
        if session is None:
            unsent = type(message).__name__
            logger.warning("%s (epoch %d) is not connected: its %s was not sent", worker_name(worker), epoch, unsent)
            return
        body = encode_driver(message)
        require_size(len(body), self._max_message_bytes, type(message).__name__)
        outbox = session.outbox
        if isinstance(message, GangNote) and (outbox.size_bytes + len(body) > _NOTES_BYTES or len(outbox) >= _NOTES):
            left = f"{len(outbox)} messages of {outbox.size_bytes} bytes"
            raise ProtocolError(f"{worker_name(worker)} has left {left} unacknowledged.")
        session.outbox.add(body)
        if session.outbox.is_full:
            self.disconnect(worker, epoch, f"it left {len(session.outbox)} messages unacknowledged.")
            asyncio.get_running_loop().call_soon(self._handler.detached, worker, epoch)
        elif session.stream is not None:
            session.stream.wake()

    def grant(self, tokens: StoreTokens) -> None:
        """Send tokens to all workers, and to those that attach from now on before anything else."""
        self._tokens = tokens
        for session in list(self._sessions):
            self.send(session.worker, session.epoch, tokens)

    def acknowledge(self, worker: WorkerId, epoch: int, number: int) -> None:
        """Tell a worker that its messages up to ``number`` are durable."""
        session = self._sessions.find(worker, epoch)
        if session is None or number <= session.durable:
            return
        if number > session.inbox.last:
            raise InternalError(f"{session}: {number} is acknowledged, the last that came is {session.inbox.last}.")
        session.settle(number)
        if session.stream is not None:
            session.stream.acknowledge()

    def disconnect(self, worker: WorkerId, epoch: int, reason: str) -> None:
        """Write pending messages, close the stream, and refuse this launch and earlier ones from now on."""
        session = self._sessions.end(worker, epoch, reason)
        if session is not None and session.stream is not None:
            session.stream.close(StaleLeaseError(f"{session}, was disconnected: {reason}"), drain=True)

    async def _serve(self, _requests: object, context: Context) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        peer = context.peer()
        address = peer.rpartition(":")[0]
        try:
            bound_to = self._gate.check(context.invocation_metadata() or ())
            envelope = await self._greeted(context, address)
            require_launch(bound_to, envelope.message)
            session = self._attach(envelope, peer)
        except (ProtocolError, InternalError) as error:
            await self._refuse(context, error, address, peer)
            return
        stream = session.stream = WorkerStream(context, session)
        try:
            await stream.run(lambda data: self._receive(session, stream, data))
        finally:
            self._detach(session, stream)
        if stream.error is not None:
            await self._refuse(context, stream.error, str(session), peer)

    async def _greeted(self, context: Context, address: str) -> Envelope[Hello]:
        """Return the Hello of a stream that has the token; an address may have a limited number of such streams."""
        if self._greeting[address] >= self._limits.greetings:
            raise DisconnectedError(f"{self._greeting[address]} streams of {address} have not sent their Hello yet.")
        self._greeting[address] += 1
        try:
            return await self._hello(context)
        finally:
            self._greeting[address] -= 1
            if not self._greeting[address]:
                del self._greeting[address]

    async def _hello(self, context: Context) -> Envelope[Hello]:
        try:
            async with asyncio.timeout(self._hello_timeout_s):
                data: Any = await context.read()
        except TimeoutError:
            raise ProtocolError(f"No Hello came within {self._hello_timeout_s} s.") from None
        if not isinstance(data, bytes):
            raise DisconnectedError("The stream ended before its Hello.")
        require_size(len(data), self._max_message_bytes, "Hello")
        number, ack, hello = decode_worker(data)
        if not isinstance(hello, Hello):
            raise ProtocolError(f"body: {type(hello).__name__} came before a Hello.")
        return Envelope(number, ack, hello)

    def _attach(self, envelope: Envelope[Hello], peer: str) -> Session:
        hello = envelope.message
        if self._is_stopping:
            raise DisconnectedError("The driver is stopping.")
        former = self._sessions.of(hello.worker)
        session = self._sessions.admit(hello, envelope.ack)
        self._sessions.put(hello.worker, session)  # before the handler is called, because it may send
        if session is not former and self._tokens is not None:
            self.send(session.worker, session.epoch, self._tokens)
        try:
            self._handle(lambda: self._handler.attached(hello, peer), session)
        except (ProtocolError, InternalError):
            self._sessions.put(hello.worker, former)
            raise
        if former is not None and former.stream is not None:
            former.stream.close(DisconnectedError("Another stream of this worker has taken over."))
            former.stream = None
            if former is not session:
                self._handle(lambda: self._handler.detached(former.worker, former.epoch), former)
        return session

    def _receive(self, session: Session, stream: WorkerStream, data: bytes) -> None:
        try:
            require_size(len(data), self._max_message_bytes, "message")
            number, ack, message = decode_worker(data)
            session.outbox.acknowledge(ack)
            if isinstance(message, Hello):
                raise ProtocolError("body: a second Hello came.")
            if number == 0:
                stream.answer()
            is_new = number > 0 and session.inbox.accept(number)
            if is_new:
                session.take(number, len(data))
            if number == 0 or is_new:
                self._handle(lambda: self._handler.received(session.worker, session.epoch, number, message), session)
        except (ProtocolError, InternalError) as error:
            stream.close(error)

    def _detach(self, session: Session, stream: WorkerStream) -> None:
        # A stream that breaks after another has taken over must not report a worker away that is attached.
        if session.stream is stream:
            session.stream = None
            if not self._is_stopping and self._sessions.of(session.worker) is session:
                with contextlib.suppress(InternalError):  # it is logged, and no stream is left to send it on
                    self._handle(lambda: self._handler.detached(session.worker, session.epoch), session)

    def _handle(self, call: Callable[[], None], session: Session) -> None:
        try:
            call()
        except ProtocolError:
            raise
        except Exception as error:
            logger.exception("%s: the driver failed to handle a message", session)
            raise InternalError(f"The driver failed: {type(error).__name__}.") from error

    async def _refuse(self, context: Context, error: Exception, who: str, peer: str) -> None:
        status = status_of(error)
        # A launch that the run does not need any more is told so; there is nothing for people to do.
        is_usual = isinstance(error, DisconnectedError | StaleLeaseError)
        left_out = self._refusals.admit(f"{who}, {is_usual}", asyncio.get_running_loop().time())
        if left_out is not None:
            more = f" (and {left_out} more since the last line)" if left_out else ""
            level = logging.INFO if is_usual else logging.WARNING
            logger.log(level, "%s (%s): closed as %s: %s%s", who, peer, status.name, error, more)
        await context.abort(status, str(error))
