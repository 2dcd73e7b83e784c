"""Deadlines of the driver: silent workers, times that are over, and waits for a store that cannot be used. Pure.

Time is an argument. The driver asks ``next_deadline`` when to check again, so nothing polls.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Hashable
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


class Outages(Generic[K]):
    """The waits for the store: who waits, since when, and the store's answer to each.

    The journal and each worker may wait for the store. While enough of them wait to say that the store is at fault, the
    time counts from the moment at which they were enough until they are not; else that of each counts for itself.
    """

    def __init__(self, timeout_s: float, own: Collection[K] = ()) -> None:
        """Begin without any; the word of each of the ``own`` is enough."""
        self.timeout_s = timeout_s
        self._own = own
        self._errors: dict[K, str] = {}
        self._began: dict[K, float] = {}
        self._since: float | None = None
        self._agreed_since: float | None = None

    @property
    def is_agreed(self) -> bool:
        """Whether enough of them wait."""
        return self._agreed_since is not None

    def began(self, key: K, error: str, now: float, enough: int = 1) -> bool:
        """Note that ``key`` waits; return whether it is the first one that does.

        Args:
            key: who waits.
            error: the store's answer.
            now: the time.
            enough: how many must wait, or one of the own, for the store to be at fault.
        """
        is_first = self._since is None
        if self._since is None:
            self._since = now
        self._errors[key] = error
        self._began.setdefault(key, now)
        self._count(now, enough)
        return is_first

    def ended(self, key: K, now: float, enough: int = 1) -> float | None:
        """Note that ``key`` waits no longer; return the seconds of the outage if nobody waits any more, else None."""
        was_waiting = self._began.pop(key, None) is not None
        self._errors.pop(key, None)
        self._count(now, enough)
        if not was_waiting or self._errors or self._since is None:
            return None
        since, self._since = self._since, None
        return now - since

    def _count(self, now: float, enough: int) -> None:
        if len(self._errors) < enough and not any(key in self._errors for key in self._own):
            self._agreed_since = None
        elif self._agreed_since is None:
            self._agreed_since = now

    def is_waiting(self, key: K) -> bool:
        """Return whether ``key`` waits."""
        return key in self._errors

    def next_deadline(self) -> float | None:
        """Return the time at which waiting ends, or None."""
        since = self._agreed_since if self.is_agreed else min(self._began.values(), default=None)
        return None if since is None else since + self.timeout_s

    def expired(self, now: float) -> str:
        """Return the store's answer if it was waited for long enough. Empty if it was not."""
        deadline = self.next_deadline()
        if deadline is None or now < deadline:
            return ""
        return next((self._errors[key] for key in self._own if key in self._errors), next(iter(self._errors.values())))

    def alone(self, now: float) -> dict[K, str]:
        """Return the workers that have waited long enough, with the store's answers, if too few of them wait."""
        late = () if self.is_agreed else [key for key, began in self._began.items() if now >= began + self.timeout_s]
        return {key: self._errors[key] for key in late}
