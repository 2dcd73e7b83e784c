"""Trying again over streams that break: messages are numbered and sent anew, attempts to attach are spaced. Pure.

Rule 1: no I/O, no clock, no thread; the owner of the stream calls the methods.
Rule 2: Outbox and Inbox serve one direction, know neither which side that is nor the content of a message.

A message gets its number once, when it is added, and keeps it on every stream. The sender keeps the message until the
receiver acknowledges it, and resends the rest after a stream breaks. The receiver accepts each number once, in order.
So every message arrives exactly once and in order, however often the stream breaks, while both processes live.

A dead path should be given up soon, and a slow one needs time: attaching takes up to eight crossings of the network,
two for TCP, three for TLS, one for the settings of HTTP/2, and two for the greeting. So each attempt may take twice as
long as the one before, within the time that is left.
"""

from __future__ import annotations

import random
from collections.abc import Sized
from typing import Generic, TypeVar

from asyncsearch.errors import ProtocolError

T = TypeVar("T", bound=Sized)


class Outbox(Generic[T]):
    """Messages that the receiver has not acknowledged yet, sent or not."""

    def __init__(self, limit: int | None = None, limit_bytes: int | None = None) -> None:
        """Start at number 1.

        Args:
            limit: number of messages at which ``is_full`` becomes true; nothing is ever dropped. None means any number.
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


_FIRST_S = 0.05
_LONGEST_S = 5.0
_FIRST_LIMIT_S = 10.0
"""Limit of the first attempt: crossings of up to 1.2 s."""
_LEAST_LIMIT_S = 0.1
"""An attempt begun is given at least this, so that a patience shorter than it still makes one."""


class Backoff:
    """Delays that double, with jitter: a thousand workers that lost one driver do not all reconnect at once."""

    def __init__(self, jitter: random.Random | None = None, *, first_s: float = _FIRST_S) -> None:
        """Begin with a delay of at most ``first_s``; after ``reset``, with the usual one."""
        self._jitter = jitter or random.Random()
        self._delay_s = first_s

    def next_s(self) -> float:
        """Return the next delay: between half and the whole of the doubled delay."""
        delay_s = self._delay_s * self._jitter.uniform(0.5, 1.0)
        self._delay_s = min(2 * self._delay_s, _LONGEST_S)
        return delay_s

    def reset(self) -> None:
        self._delay_s = _FIRST_S


def attempt_limit(attempt: int, left_s: float) -> float:
    """Return how long an attempt to attach may take, in seconds.

    Args:
        attempt: how many attempts have failed for want of time so far: a slow way stays slow.
        left_s: time until the worker gives up its driver.
    """
    return max(_LEAST_LIMIT_S, min(_FIRST_LIMIT_S * 2.0 ** min(attempt, 32), left_s))
