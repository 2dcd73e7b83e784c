"""Decides how long a run waits for a store that it cannot use. Pure: time is an argument.

The journal and each worker may wait for the store. While enough of them wait to say that the store is at fault, the
time counts from the moment at which they were enough until they are not; else that of each counts for itself. What is
tried again, and when, is the affair of those who wait.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Outages(Generic[K]):
    """Who waits for the store, since when, and what the store answered."""

    def __init__(self, timeout_s: float, own: Collection[K] = ()) -> None:
        """Begin without any; ``own``: those whose word is enough."""
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
            error: what the store answered.
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
        """Return what the store answered, if it was waited for long enough; empty: it was not."""
        deadline = self.next_deadline()
        if deadline is None or now < deadline:
            return ""
        return next((self._errors[key] for key in self._own if key in self._errors), next(iter(self._errors.values())))

    def alone(self, now: float) -> dict[K, str]:
        """Return who has waited long enough, and what the store answered each, if not enough of them wait."""
        late = () if self.is_agreed else [key for key, began in self._began.items() if now >= began + self.timeout_s]
        return {key: self._errors[key] for key in late}
