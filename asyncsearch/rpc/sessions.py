"""The driver's sessions with its workers across streams, and the decision who may attach.

A session is one launch of a worker slot (its epoch), held by one agent process (its random name). The same three
resume the session; a higher epoch replaces it; any other process is a rival or a leftover, and is refused. A stream,
with its reader, its writer and its end, lasts until it breaks or the next one of its session takes over.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from asyncsearch.errors import OtherProtocolError, StaleLeaseError
from asyncsearch.ids import WorkerId, worker_name
from asyncsearch.rpc.convert import encode_driver, frame
from asyncsearch.rpc.messages import PROTOCOL, Hello, Welcome
from asyncsearch.rpc.redelivery import Inbox, Outbox

if TYPE_CHECKING:
    from asyncsearch.rpc.quiet_grpc import aio

    Context = aio.ServicerContext[bytes, bytes]


logger = logging.getLogger(__name__)

_ACK_DELAY_S = 1.0
"""Time that an acknowledgement waits for a message to join, or for a higher one. A delay costs workers only memory,
and a write costs as much as reading two reports. A heartbeat is answered at once.
"""
_DRAIN_S = 2.0
"""Time that a closed stream has to write pending messages."""
_OUTBOX_LIMIT = 10_000
_OUTBOX_BYTES = 256 << 20
_UNREAD_BYTES = 128 << 20
"""Most bytes of a worker's messages that are not durable yet: no more are read until some are."""


class Session:
    """One launch of a worker, held by one agent process, over any number of streams."""

    def __init__(self, worker: WorkerId, epoch: int, agent: str) -> None:
        self.worker = worker
        self.epoch = epoch
        self.agent = agent
        self.outbox: Outbox[bytes] = Outbox(_OUTBOX_LIMIT, _OUTBOX_BYTES)
        self.inbox = Inbox()
        self.durable = 0
        """Highest message number of the worker that the driver may acknowledge."""
        self.stream: WorkerStream | None = None
        """None while the worker is away."""
        self._taken: deque[tuple[int, int]] = deque()
        """Number and bytes of each message of the worker that is not durable yet."""
        self._taken_bytes = 0
        self.has_room = asyncio.Event()
        """Set while more messages may be read."""
        self.has_room.set()

    def take(self, number: int, size_bytes: int) -> None:
        """Count a message that came."""
        self._taken.append((number, size_bytes))
        self._taken_bytes += size_bytes
        if self._taken_bytes >= _UNREAD_BYTES:
            self.has_room.clear()

    def settle(self, number: int) -> None:
        """Note that all messages up to a number are durable."""
        self.durable = number
        while self._taken and self._taken[0][0] <= number:
            self._taken_bytes -= self._taken.popleft()[1]
        if self._taken_bytes < _UNREAD_BYTES:
            self.has_room.set()

    def __str__(self) -> str:
        return f"{worker_name(self.worker)}, epoch {self.epoch}"


class WorkerStream:
    """One stream of a session: one task reads, another writes; the rest is called in the loop and returns at once."""

    def __init__(self, context: Context, session: Session) -> None:
        self._context = context
        self._session = session
        self._wake = asyncio.Event()
        self._ack_timer: asyncio.TimerHandle | None = None
        self._written = 0
        self._ack_written = 0
        self._awaited = 0
        self._is_closed = False
        self._is_to_drain = False
        self.error: Exception | None = None
        """Reason for closing it; None for a normal end."""

    def wake(self) -> None:
        """Make the writer look for messages to write."""
        self._wake.set()

    def acknowledge(self) -> None:
        """Make the writer send the newest acknowledgement: at once if a heartbeat waits for it, else soon."""
        if 0 < self._awaited <= self._session.durable:
            self._awaited = 0
            self._wake.set()
        elif self._ack_timer is None:
            self._ack_timer = asyncio.get_running_loop().call_later(_ACK_DELAY_S, self._wake.set)

    def answer(self) -> None:
        """Acknowledge the durable messages now, and all before this heartbeat as soon as they are durable."""
        self._awaited = self._session.inbox.last
        if self._session.durable > self._ack_written:
            self._wake.set()

    def close(self, error: Exception | None, *, drain: bool = False) -> None:
        """End the stream; the first call determines the error.

        Args:
            error: reason for closing; None for a normal end.
            drain: whether to write pending messages first.
        """
        if not self._is_closed:
            self._is_closed, self._is_to_drain, self.error = True, drain, error
            self._wake.set()

    async def run(self, receive: Callable[[bytes], None]) -> None:
        """Read and write until the stream is closed or breaks."""
        reader = asyncio.ensure_future(self._read(receive))
        try:
            await self._write()
        finally:
            self.close(None)
            reader.cancel()
            if self._ack_timer is not None:
                self._ack_timer.cancel()

    async def _read(self, receive: Callable[[bytes], None]) -> None:
        while not self._is_closed:
            # What is not read stays with the worker: a driver whose journal is slow must not run out of memory.
            await self._session.has_room.wait()
            try:
                data: Any = await self._context.read()
            except Exception as error:
                # gRPC has several errors for a finished call; each would appear as the traceback of a lost task.
                logger.debug("%s: reading failed", self._session, exc_info=error)
                data = None
            if not isinstance(data, bytes):  # the end of the stream
                self.close(None)
            elif not self._is_closed:
                receive(data)

    async def _write(self) -> None:
        await self._put(0, encode_driver(Welcome()))
        while not self._is_closed:
            await self._put_pending()
            await self._wake.wait()
            self._wake.clear()  # before the next look: a message that is added during it wakes the writer again
        if self._is_to_drain:
            try:
                async with asyncio.timeout(_DRAIN_S):
                    await self._put_pending()
            except TimeoutError:
                logger.warning("%s does not read; its last messages are lost", self._session)

    async def _put_pending(self) -> None:
        session = self._session
        while messages := session.outbox.pending(self._written):
            for number, body in messages:
                await self._put(number, body)
                self._written = number
        if session.durable > self._ack_written:
            await self._put(0)

    async def _put(self, number: int, body: bytes = b"") -> None:
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        self._ack_written = self._session.durable
        await self._context.write(frame(number, self._ack_written, body))


class Sessions:
    """The newest session of each worker, and the launches that are over."""

    def __init__(self) -> None:
        self._sessions: dict[WorkerId, Session] = {}
        self._over: dict[WorkerId, tuple[int, str]] = {}

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def find(self, worker: WorkerId, epoch: int) -> Session | None:
        """Return the session of a launch, if it is the current one."""
        session = self._sessions.get(worker)
        return session if session is not None and session.epoch == epoch else None

    def of(self, worker: WorkerId) -> Session | None:
        """Return the current session of a worker."""
        return self._sessions.get(worker)

    def put(self, worker: WorkerId, session: Session | None) -> None:
        if session is None:
            self._sessions.pop(worker, None)
        else:
            self._sessions[worker] = session

    def end(self, worker: WorkerId, epoch: int, reason: str) -> Session | None:
        """Refuse a launch and all earlier ones from now on; return its session if it was the current one."""
        self._over[worker] = max((epoch, reason), self._over.get(worker, (0, "")))
        session = self.find(worker, epoch)
        if session is not None:
            del self._sessions[worker]
        return session

    def admit(self, hello: Hello, ack: int) -> Session:
        """Return the session that a worker resumes, or a new one, which is not yet the current one.

        Args:
            ack: number of the newest driver's message that the worker has received.

        Raises:
            OtherProtocolError: it speaks another version of the contract.
            StaleLeaseError: it is not the newest launch of its worker, or not the process that took the launch.
            ProtocolError: it acknowledges a message that was never sent.
        """
        if hello.protocol != PROTOCOL:
            raise OtherProtocolError(
                f"The worker speaks version {hello.protocol} of the protocol and the driver version {PROTOCOL}: "
                "install the same asyncsearch on both."
            )
        who = f"{worker_name(hello.worker)}, epoch {hello.epoch}"
        epoch, reason = self._over.get(hello.worker, (0, ""))
        # The work of a launch that was given up is another worker's by now, however late the process comes back.
        if hello.epoch <= epoch:
            raise StaleLeaseError(f"{who}, is over; epoch {epoch} ended: {reason}")
        former = self._sessions.get(hello.worker)
        if former is not None and (former.epoch, former.agent) == (hello.epoch, hello.agent):
            former.outbox.acknowledge(ack)
            return former
        if former is not None and hello.epoch <= former.epoch:
            raise StaleLeaseError(
                f"{who}, came as process {hello.agent}; epoch {former.epoch} is held by {former.agent}."
            )
        # Its numbers are of a former driver: taken for ours, they would have messages counted as seen that never came.
        if ack:
            raise StaleLeaseError(f"{who}, comes back to a driver that does not know it.")
        return Session(hello.worker, hello.epoch, hello.agent)


EVERY_S = 60.0
MOST = 1_000
"""Different peers, and so lines, in ``EVERY_S``."""


class RefusalLog:
    """Admits one line a peer and minute, and counts those between."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, int]] = {}
        """Peer -> when it was last logged, and how many of its refusals were not logged since; the oldest first."""

    def __len__(self) -> int:
        return len(self._last)

    def admit(self, peer: str, now: float) -> int | None:
        """Return how many refusals of a peer were left out before this one; None if this one is to be left out, too.

        Args:
            now: seconds of a clock that never goes back.
        """
        self._forget(now)
        logged_s, left_out = self._last.get(peer, (None, 0))
        if logged_s is not None and now - logged_s < EVERY_S:
            self._last[peer] = (logged_s, left_out + 1)
            return None
        if logged_s is None and len(self._last) >= MOST:
            return None
        self._last.pop(peer, None)
        self._last[peer] = (now, 0)
        return left_out

    def _forget(self, now: float) -> None:
        """Forget the peers that have been quiet for two periods, the first entries."""
        while self._last:
            peer = next(iter(self._last))
            if now - self._last[peer][0] < 2 * EVERY_S:
                return
            del self._last[peer]
