"""Numbering and redelivery for one direction of a stream: the sender has an Outbox, the receiver an Inbox.

Rule 1: no I/O, no clock, no thread; the owner of the stream calls the methods.
Rule 2: neither class knows which side it serves, nor the content of a message.

A message gets its number once, when it is added, and keeps it on every stream. The sender keeps the message until the
receiver acknowledges it, and resends the rest after a stream breaks. The receiver accepts each number once, in order.
So every message arrives exactly once and in order, however often the stream breaks, while both processes live.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Generic, TypeVar

from asyncsearch.errors import ProtocolError

T = TypeVar("T", bound=Sized)


class Outbox(Generic[T]):
    """Messages that the receiver has not acknowledged yet, sent or not."""

    def __init__(self, limit: int | None = None, limit_bytes: int | None = None) -> None:
        """Start at number 1.

        Args:
            limit: number of messages at which ``is_full`` becomes true; nothing is ever dropped. None: any number.
            limit_bytes: of all of them together, likewise.
        """
        self._limit, self._limit_bytes = limit, limit_bytes
        self._messages: dict[int, T] = {}
        self.size_bytes = 0
        """Length of all messages together."""
        self.last = 0
        """Number of the newest message, 0 before the first one."""
        self.acknowledged = 0
        """Highest number that the receiver has acknowledged."""

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def is_full(self) -> bool:
        """Whether the receiver has left more messages unacknowledged than the limit allows."""
        if self._limit is not None and len(self._messages) >= self._limit:
            return True
        return self._limit_bytes is not None and self.size_bytes >= self._limit_bytes

    def add(self, message: T) -> int:
        """Keep a message until it is acknowledged, and return its number."""
        self.last += 1
        self._messages[self.last] = message
        self.size_bytes += len(message)
        return self.last

    def acknowledge(self, number: int) -> None:
        """Forget all messages up to ``number``. A late, lower number changes nothing.

        Raises:
            ProtocolError: no message with this number was ever sent.
        """
        if number > self.last:
            raise ProtocolError(
                f"ack: message {number} was acknowledged, and {self.last} is the last one that was sent."
            )
        for acknowledged in range(self.acknowledged + 1, number + 1):
            self.size_bytes -= len(self._messages.pop(acknowledged))
        self.acknowledged = max(self.acknowledged, number)

    def pending(self, after: int) -> list[tuple[int, T]]:
        """Return the unacknowledged messages above ``after`` with their numbers, in order.

        Args:
            after: highest number already written to the current stream; 0 on a new one.
        """
        first = max(after, self.acknowledged) + 1
        return [(number, self._messages[number]) for number in range(first, self.last + 1)]


class Inbox:
    """Records which messages have arrived."""

    def __init__(self) -> None:
        self.last = 0
        """Highest accepted number; all lower ones were accepted, too."""

    def accept(self, number: int) -> bool:
        """Return whether the message is new; a duplicate is not, and the caller must ignore it.

        Raises:
            ProtocolError: a message before this one is missing.
        """
        if number <= self.last:
            return False
        if number > self.last + 1:
            raise ProtocolError(f"number: message {number} came after {self.last}; the messages between are missing.")
        self.last = number
        return True
