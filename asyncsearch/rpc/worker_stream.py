"""The driver's side of one stream: its reader, its writer and its end."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from asyncsearch.ids import WorkerId, worker_name
from asyncsearch.rpc.convert import encode_driver, frame
from asyncsearch.rpc.messages import Welcome
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
            self._wake.clear()
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
