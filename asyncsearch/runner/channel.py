"""The transport of the messages between agent and runner: length, then msgpack, on a socket pair."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

from asyncsearch.runner.protocol import FromRunner, ToRunner

_HEADER_BYTES = 4
_READ_BYTES = 65_536
_MAX_REPORT_BYTES = 64 * 2**20
_MAX_BUNDLE_BYTES = 2**32 - 1

In = TypeVar("In")
Out = TypeVar("Out")

_encoder = msgspec.msgpack.Encoder()
_TO_RUNNER = msgspec.msgpack.Decoder(ToRunner)
_FROM_RUNNER = msgspec.msgpack.Decoder(FromRunner)


class Channel(Generic[In, Out]):
    """One end of the socket pair. One thread uses it."""

    def __init__(self, sock: socket.socket, decoder: msgspec.msgpack.Decoder[In], max_bytes: int) -> None:
        self.socket = sock
        self.is_closed = False
        """Whether the other end is gone and all its messages are read, or it has sent invalid bytes."""
        self._decoder = decoder
        self._max_bytes = max_bytes
        self._received = bytearray()
        self._unsent = bytearray()

    def send(self, message: Out) -> None:
        """Send a message, waiting until the other end reads."""
        self.socket.sendall(_frame(message))

    def post(self, message: Out) -> None:
        """Send a message without waiting; ``send_rest`` sends the part that cannot be sent now."""
        self._unsent += _frame(message)
        self.send_rest()

    @property
    def has_rest(self) -> bool:
        """Whether part of a posted message is still unsent."""
        return bool(self._unsent)

    def send_rest(self) -> None:
        """Send more of the posted messages, without waiting. Only reading detects a lost other end."""
        try:
            while self._unsent:
                del self._unsent[: self.socket.send(self._unsent, socket.MSG_DONTWAIT)]
        except BlockingIOError:
            pass
        except OSError:  # not yet the end: messages of the other end may still be unread, its last reports among them
            self._unsent.clear()

    def receive_now(self) -> list[In]:
        """Return messages from one read, without waiting."""
        self._pull(socket.MSG_DONTWAIT)
        return list(self._messages())

    def receive_rest(self) -> list[In]:
        """Return all available messages, without waiting."""
        while self._pull(socket.MSG_DONTWAIT):
            pass
        return list(self._messages())

    def receive(self) -> In | None:
        """Wait for one message and return it; later ones stay buffered. None if the other end is gone."""
        while True:
            for message in self._messages():
                return message
            if not self._pull(0):
                return None

    def _pull(self, flags: int) -> bool:
        """Read once, and return whether data arrived."""
        if self.is_closed:
            return False
        try:
            data = self.socket.recv(_READ_BYTES, flags)
        except BlockingIOError:
            return False
        except OSError:  # a reset counts as the end
            data = b""
        self.is_closed = not data
        self._received += data
        return bool(data)

    def _messages(self) -> Iterator[In]:
        """Yield the complete messages in the buffer, and remove them from it."""
        received = self._received
        while len(received) >= _HEADER_BYTES:
            length = int.from_bytes(received[:_HEADER_BYTES], "big")
            if length > self._max_bytes:
                self._break_off()
                return
            end = _HEADER_BYTES + length
            if len(received) < end:
                return
            body = bytes(received[_HEADER_BYTES:end])
            del received[:end]
            try:
                message = self._decoder.decode(body)
            except msgspec.DecodeError:
                self._break_off()
                return
            yield message

    def _break_off(self) -> None:
        """Stop reading, because user code has written to a descriptor that it did not open."""
        self.is_closed = True
        self._received.clear()


class RunnerEnd(Channel[ToRunner, FromRunner]):
    """The runner's end. The process ends once its agent is gone, because nobody wants the result."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock, _TO_RUNNER, _MAX_BUNDLE_BYTES)
        self._sending = threading.Lock()
        """Held while a message is sent: the thread that writes a copy sends, too."""

    def send(self, message: FromRunner) -> None:
        try:
            with self._sending:
                super().send(message)
        except OSError:
            os._exit(1)

    def receive_now(self) -> list[ToRunner]:
        messages = super().receive_now()
        if self.is_closed:
            os._exit(1)
        return messages

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until there is something to read, or the time is over."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        poll.poll(None if timeout_s is None else 1_000 * timeout_s)


def agent_end(sock: socket.socket) -> Channel[FromRunner, ToRunner]:
    """Return the agent's end of the channel."""
    return Channel(sock, _FROM_RUNNER, _MAX_REPORT_BYTES)


def runner_end(sock: socket.socket) -> RunnerEnd:
    """Return the runner's end of the channel."""
    return RunnerEnd(sock)


def _frame(message: object) -> bytes:
    body = _encoder.encode(message)
    return len(body).to_bytes(_HEADER_BYTES, "big") + body
