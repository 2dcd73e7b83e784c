"""Finds the workers that have been silent too long, and the deadlines that have passed. Pure: time is an argument.

The driver asks ``next_deadline`` when to check again, so nothing polls.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Liveness(Generic[K]):
    """Remembers the last sign of life of each worker; a worker silent for ``timeout_s`` is overdue."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._last_seen: dict[K, float] = {}

    def seen(self, key: K, now: float) -> None:
        """Note a sign of life. Keys stay in the order of their last sign, so the first one is the most silent."""
        self._last_seen.pop(key, None)
        self._last_seen[key] = now

    def forget(self, key: K) -> None:
        """Stop watching ``key``."""
        self._last_seen.pop(key, None)

    def renew(self, now: float) -> None:
        """Begin the time of all keys anew: nobody listened to them until now."""
        self._last_seen = dict.fromkeys(self._last_seen, now)

    def overdue(self, now: float) -> list[tuple[K, float]]:
        """Return the overdue keys, each with its seconds of silence."""
        late = []
        for key, last in self._last_seen.items():
            if now - last < self.timeout_s:
                break
            late.append((key, now - last))
        return late

    def next_deadline(self) -> float | None:
        """Return the earliest time at which a key may become overdue, or None."""
        first = next(iter(self._last_seen.values()), None)
        return None if first is None else first + self.timeout_s


class Deadlines(Generic[K]):
    """Deadlines by key, which may be moved or cancelled."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, K]] = []
        self._live: dict[K, int] = {}
        self._count = 0

    def set(self, key: K, when: float) -> None:
        """Set, or move, the deadline of ``key``."""
        self._count += 1
        self._live[key] = self._count
        heapq.heappush(self._heap, (when, self._count, key))

    def call_off(self, key: K) -> None:
        """Forget the deadline of ``key``, if there is one."""
        self._live.pop(key, None)

    def expired(self, now: float) -> list[K]:
        """Return, and forget, the keys whose deadline has passed."""
        out = []
        while self._heap and (self._is_dead(self._heap[0]) or self._heap[0][0] <= now):
            entry = heapq.heappop(self._heap)
            if not self._is_dead(entry):
                del self._live[entry[2]]
                out.append(entry[2])
        return out

    def next_deadline(self) -> float | None:
        """Return the earliest deadline, or None."""
        while self._heap and self._is_dead(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _is_dead(self, entry: tuple[float, int, K]) -> bool:
        return self._live.get(entry[2]) != entry[1]
