"""The time of the process of a training: the seconds of each activity since its work began."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import UNSET, UnsetType

from asyncsearch.events import Spent

ENTERING, LOADING, TRAINING, SAVING, AWAITING, EVALUATING = range(6)
"""Entering lasts until the first unit begins: a function builds and imports there what it needs."""


_TELL_EVERY_S = 0.01
"""Reports that come faster do not all tell what the time was for: it would cost more than the rest of a report."""


class Stopwatch:
    """Runs while a worker has work; it is always in one activity, so that they add up to the time that has passed.

    The trainings that a worker has together share one: a second in which one of them saves is no second of training.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds = [0.0] * 6
        self._activity = ENTERING
        self._since_s = self._read_s = clock()

    def switch(self, activity: int) -> int:
        """Begin an activity, and return the one that ends; a fraction of a microsecond, as units may take 1 ms."""
        before, now = self._activity, self._clock()
        self._seconds[before] += now - self._since_s
        self._activity, self._since_s = activity, now
        return before

    def call_it(self, activity: int) -> None:
        """Count the time since the last switch as another activity: what it was is known only now."""
        self._activity = activity

    def restart(self) -> None:
        """Go on after a time that is not to be counted."""
        self._since_s = self._clock()

    @contextmanager
    def during(self, activity: int) -> Iterator[None]:
        """Do something else for a while."""
        before = self.switch(activity)
        try:
            yield
        finally:
            self.switch(before)

    def news(self, *, is_urgent: bool) -> Spent | UnsetType:
        """Return the whole milliseconds of each activity, unless that was told a moment ago and is not urgent."""
        return self.read() if is_urgent or self._clock() >= self._read_s + _TELL_EVERY_S else UNSET

    def read(self) -> Spent:
        """Return the whole milliseconds of each activity."""
        self.switch(self._activity)
        self._read_s = self._since_s
        entering, loading, training, saving, verdict, evaluating = [int(1000 * seconds) for seconds in self._seconds]
        return Spent(0, entering, loading, training, saving, verdict, evaluating)
