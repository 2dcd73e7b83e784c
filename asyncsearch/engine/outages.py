"""Decides how long a run waits for a store that it cannot use. Pure: time is an argument.

The journal and each worker may wait for the store. The time counts from the moment at which the first of them began to
wait until none does; what is tried again, and when, is the affair of those who wait.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Outages(Generic[K]):
    """Who waits for the store, since when, and what the store answered."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._errors: dict[K, str] = {}
        self._since: float | None = None

    def began(self, key: K, error: str, now: float) -> bool:
        """Note that ``key`` waits; return whether it is the first one that does."""
        is_first = self._since is None
        if self._since is None:
            self._since = now
        self._errors[key] = error
        return is_first

    def ended(self, key: K, now: float) -> float | None:
        """Note that ``key`` waits no longer; return the seconds of the outage if nobody waits any more, else None."""
        if self._errors.pop(key, None) is None or self._errors or self._since is None:
            return None
        since, self._since = self._since, None
        return now - since

    def is_waiting(self, key: K) -> bool:
        """Return whether ``key`` waits."""
        return key in self._errors

    def next_deadline(self) -> float | None:
        """Return the time at which waiting ends, or None."""
        return None if self._since is None else self._since + self.timeout_s

    def expired(self, now: float) -> str:
        """Return what the store answered, if it was waited for long enough; empty: it was not."""
        deadline = self.next_deadline()
        return "" if deadline is None or now < deadline else next(iter(self._errors.values()))

    def waiting(self) -> dict[K, str]:
        """Return who waits, and what the store answered each."""
        return dict(self._errors)
