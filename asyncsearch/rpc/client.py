"""The worker's side of the contract in ``rpc/``: one connection of an agent to its driver.

    agent's threads ── send, heartbeat ──> outbox ──> gRPC's thread writes ~~~> driver
    agent's handler <── deliver ── connection's thread reads <~~~~~~~~~~~~~~~~~ driver

The connection's thread attaches, reads, and attaches again when the stream breaks; gRPC pulls outgoing messages from
a generator, in its own thread. Synchronous gRPC also works in a process that Spark forked.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from asyncsearch.errors import DisconnectedError, ProtocolError
from asyncsearch.ids import worker_name
from asyncsearch.rpc.auth import channel_credentials
from asyncsearch.rpc.channel import MAX_MESSAGE_BYTES, METHOD, SERVICE, Keepalive, client_options, require_size, row_of
from asyncsearch.rpc.convert import decode_driver, encode_worker, frame
from asyncsearch.rpc.messages import DriverMessage, Endpoint, Heartbeat, Hello, Welcome, WorkerMessage
from asyncsearch.rpc.quiet_grpc import grpc
from asyncsearch.rpc.redelivery import Backoff, Inbox, Outbox, attempt_limit

logger = logging.getLogger(__name__)

_FIRST_DELAY_S = 0.005
"""First delay of a worker that was never attached: the driver may be about to listen."""
_CLOSE_S = 1.0
"""Time that the driver has to end a stream that the worker has ended."""
_STEADY_S = 5.0
"""Lifetime after which a stream without any progress still restarts the time limit for attaching."""


class Connection:
    """Carries messages to and from the driver, each exactly once and in order, over as many streams as necessary."""

    def __init__(
        self,
        endpoint: Endpoint,
        hello: Hello,
        *,
        deliver: Callable[[DriverMessage], None],
        closed: Callable[[Exception | None], None],
        reconnect_s: float = 30.0,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        keepalive: Keepalive | None = None,
    ) -> None:
        """Make a connection that is not open yet.

        Args:
            deliver: called with each message of the driver, in the connection's thread.
            closed: called once, as the last action of the connection's thread, if it was ever attached. None means the
                driver or this side ended it. DisconnectedError: not attached for ``reconnect_s``. Any other error: the
                driver refused this worker, or ``deliver`` raised.
            reconnect_s: time limit for attaching, initially and after each break.
        """
        self._endpoint = endpoint
        self._hello = hello
        self._deliver = deliver
        self._closed = closed
        self._reconnect_s = reconnect_s
        self._max_message_bytes = max_message_bytes
        self._keepalive = keepalive or Keepalive()
        self._outbox: Outbox[bytes] = Outbox()
        self._inbox = Inbox()
        self._changed = threading.Condition()
        """Guards all following attributes and the outbox; notified at every change of them."""
        self._stream: _Stream | None = None
        self._was_attached = False
        self._is_closing = False
        self._is_over = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="asyncsearch-connection", daemon=True)

    @property
    def backlog(self) -> int:
        """Number of messages that the driver has not acknowledged. While it grows, callers should omit log lines."""
        return len(self._outbox)

    def open(self) -> None:
        """Attach; return after the driver has accepted this worker.

        Raises:
            DisconnectedError: the driver could not be reached for ``reconnect_s``.
            UnauthenticatedError: it is not the driver that launched this worker.
            StaleLeaseError: this launch of the worker is over.
            ProtocolError: driver and worker do not understand each other.
        """
        self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._was_attached or self._is_over)
            if not self._was_attached and self._error is not None:
                raise self._error

    def send(self, message: WorkerMessage) -> None:
        """Send a message, now or when attached again; never waits for the network.

        Raises:
            ProtocolError: the message does not match the contract, or is over the size limit.
        """
        body = encode_worker(message)
        require_size(len(body), self._max_message_bytes, type(message).__name__)
        with self._changed:
            self._outbox.add(body)
            self._changed.notify_all()

    def heartbeat(self) -> None:
        """Tell the driver that this worker is alive, if attached, and request the newest acknowledgement."""
        with self._changed:
            if self._stream is not None:
                self._stream.is_heartbeat_due = True
                self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until all sent messages are durable, and return whether they are."""
        self.heartbeat()
        with self._changed:
            self._changed.wait_for(lambda: not self._outbox or self._is_over, timeout_s)
            return not self._outbox

    def close(self) -> None:
        """End the stream. Unacknowledged messages may be lost: call ``flush`` first. ``deliver`` may call this."""
        with self._changed:
            self._is_closing = True
            if self._stream is not None:
                self._stream.cancel_in(_CLOSE_S)
            self._changed.notify_all()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            error = self._attach_until_over()
        except Exception as raised:  # by deliver or by this class: in either case the agent must learn of the end
            error = raised
        with self._changed:
            self._is_over = True
            self._error = error
            self._changed.notify_all()
        if self._was_attached:
            self._closed(error)

    def _attach_until_over(self) -> Exception | None:
        backoff = Backoff(first_s=_FIRST_DELAY_S)
        places = itertools.cycle(self._endpoint.addresses)
        too_late = 0
        deadline_s = time.monotonic() + self._reconnect_s
        while True:
            began_s, before = time.monotonic(), self._progress
            broken = self._attach_once(next(places), attempt_limit(too_late, deadline_s - began_s))
            if broken is None or self._is_closing:
                return None
            if row_of(broken.status).is_final:
                return row_of(broken.status).error(broken.words)
            now_s = time.monotonic()
            # The limit that let the worker in once is its limit from the start: a slow path stays slow.
            too_late += broken.is_late
            # A driver that accepts workers and then fails at once must not be retried forever.
            if self._progress != before or now_s - began_s > _STEADY_S:
                backoff.reset()
                deadline_s = now_s + self._reconnect_s
            delay_s = backoff.next_s()
            if now_s + delay_s > deadline_s:
                return self._unreachable(broken.words)
            level = logging.INFO if self._was_attached else logging.DEBUG
            logger.log(level, "%s is detached from the driver (%s); next try in %.1f s", self, broken.words, delay_s)
            with self._changed:
                self._changed.wait_for(lambda: self._is_closing, delay_s)

    @property
    def _progress(self) -> tuple[int, int]:
        return self._outbox.acknowledged, self._inbox.last

    def _attach_once(self, address: str, timeout_s: float) -> _Broken | None:
        """Attach and read until the stream ends; return None for a good end, else why it broke."""
        with contextlib.closing(_Stream(self._endpoint, address, self._keepalive, self._max_message_bytes)) as stream:
            with self._changed:
                if self._is_closing:
                    return None
                self._stream = stream
            try:
                stream.open(self._to_write(stream))
                stream.cancel_in(timeout_s)
                for data in stream.call:
                    self._read(stream, data)
            except grpc.RpcError:
                is_late = not stream.is_welcome and stream.call.code() is grpc.StatusCode.CANCELLED
                words = f"no answer within {timeout_s:.1f} s" if is_late else stream.call.details()
                return _Broken(stream.call.code(), words, is_late)
            finally:
                with self._changed:
                    self._stream = None
                    stream.is_over = True
                    self._changed.notify_all()
        return None

    def _to_write(self, stream: _Stream) -> Iterator[bytes]:
        # The number of the last message that came tells the driver which ones died with the former stream.
        yield frame(0, self._inbox.last, encode_worker(self._hello))
        while True:
            with self._changed:
                self._changed.wait_for(lambda: stream.is_over or self._is_closing or self._is_due(stream))
                if stream.is_over or self._is_closing:
                    return
                messages = self._outbox.pending(stream.written)
                is_heartbeat_due, stream.is_heartbeat_due = stream.is_heartbeat_due, False
            for number, body in messages:
                yield frame(number, self._inbox.last, body)
                stream.written = number
            if is_heartbeat_due:
                yield frame(0, self._inbox.last, encode_worker(Heartbeat()))

    def _is_due(self, stream: _Stream) -> bool:
        written = max(stream.written, self._outbox.acknowledged)
        return stream.is_welcome and (stream.is_heartbeat_due or self._outbox.last > written)

    def _read(self, stream: _Stream, data: bytes) -> None:
        number, ack, message = decode_driver(data)
        if not stream.is_welcome and not isinstance(message, Welcome):
            raise ProtocolError(f"body: {type(message).__name__} came before a Welcome.")
        with self._changed:
            self._outbox.acknowledge(ack)
            if isinstance(message, Welcome):
                stream.welcome()
                stream.is_heartbeat_due = bool(self._outbox)
                self._was_attached = True
            if isinstance(message, Welcome) or not self._outbox:  # else who writes would wake at each message
                self._changed.notify_all()
            # Accepted here, delivered outside the lock: deliver may send or close, which take it.
            is_new = number > 0 and not self._is_closing and self._inbox.accept(number)
        if is_new and message is not None and not isinstance(message, Welcome):
            self._deliver(message)

    def _unreachable(self, details: str) -> DisconnectedError:
        return DisconnectedError(
            f"The driver at {self._endpoint.address} could not be reached from {self._hello.host or 'this worker'} for "
            f"{self._reconnect_s:g} s ({details}). Check that the driver still runs, that its address is right, and "
            "that no firewall blocks it: each worker must be able to connect to that host and port."
        )

    def __str__(self) -> str:
        return f"{worker_name(self._hello.worker)}, epoch {self._hello.epoch}"


class _Broken(NamedTuple):
    """Why a stream is over, or was never made."""

    status: grpc.StatusCode
    words: str
    is_late: bool
    """Whether the driver had not accepted the worker within the attempt's time."""


class _Stream:
    """One attempt to attach, and the resulting stream, on its own connection."""

    def __init__(self, endpoint: Endpoint, address: str, keepalive: Keepalive, max_message_bytes: int) -> None:
        self._channel = grpc.secure_channel(
            address, channel_credentials(endpoint), options=client_options(keepalive, max_message_bytes)
        )
        self._timer: threading.Timer | None = None
        self.call: Any = None
        self.written = 0
        self.is_welcome = False
        self.is_heartbeat_due = False
        self.is_over = False

    def close(self) -> None:
        self._stop_timer()
        self._channel.close()

    def open(self, to_write: Iterator[bytes]) -> None:
        attach = self._channel.stream_stream(
            f"/{SERVICE}/{METHOD}", request_serializer=None, response_deserializer=None
        )
        self.call = attach(to_write)

    def welcome(self) -> None:
        """Note that the driver has accepted the worker, so the stream may last."""
        self.is_welcome = True
        self._stop_timer()

    def cancel_in(self, delay_s: float) -> None:
        """Cancel the stream if it is still open after the delay."""
        self._stop_timer()
        self._timer = threading.Timer(delay_s, self._cancel)
        self._timer.daemon = True
        self._timer.start()

    def _cancel(self) -> None:
        if self.call is not None:
            self.call.cancel()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
