"""The progress of a study or of one trial: the facts that stop rules read. Pure.

Of the reports only those are kept that were the best so far: what a plateau asks, how good the best was some reports
ago, is then found in O(log n), and a journal that is replayed leads to the same answer.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import NamedTuple

import msgspec


class Improvement(NamedTuple):
    """A report that was the best so far."""

    value: float
    reports: int
    """Its number among the reports of the metric, from 1."""
    trials: int
    """The number of the trial in whose course it came, by order of their ends, from 1."""


class RunningBest(msgspec.Struct):
    """The reports of a study or of a trial, as far as rules need them. Only the engine changes it."""

    reports: int = 0
    trials: int = 0
    units: int = 0
    seconds: float = 0.0
    """Time that was trained up to the last report; of a trial only."""
    value: float | None = None
    improvements: list[Improvement] = []
    clock: tuple[int, float] | None = None
    """Number of the attempt that trains a trial, and when it last reported, in seconds since 1970."""

    def report(self, value: float | None, mode: str) -> None:
        """Take a report of the metric; None stands for one that is not finite."""
        self.reports += 1
        self.value = value
        if value is None:
            return
        last = self.improvements[-1].value if self.improvements else None
        if last is None or (value < last if mode == "min" else value > last):
            self.improvements.append(Improvement(value, self.reports, self.trials + 1))

    def tick(self, attempt: int, since_s: float, now: float) -> None:
        """Count the time that a trial trained up to a report, under an attempt that began at ``since_s``."""
        before = self.clock[1] if self.clock is not None and self.clock[0] == attempt else since_s
        self.seconds += max(0.0, now - before)
        self.clock = attempt, now

    def seconds_at(self, attempt: int | None, since_s: float, now: float) -> float:
        """Return the time that a trial has trained until now; ``attempt``: its open one, None if it has none."""
        if attempt is None:
            return self.seconds
        before = self.clock[1] if self.clock is not None and self.clock[0] == attempt else since_s
        return self.seconds + max(0.0, now - before)


class StopProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a study, or of one trial, when a rule is asked."""

    metric: str
    mode: str
    value: float | None
    """The metric as last reported, by any trial; None if it was not finite, or before the first report."""
    best: float | None
    """The best finite value that was ever reported."""
    reports: int
    """How often the metric was reported."""
    trials: int
    """How many trials have been paused or have ended without failing; 0 for the progress of a trial."""
    units: int
    """Units of training; of a study those of all trials, each shared unit once."""
    seconds: float
    """Time: of a trial while workers trained it, of a study that of all its runs together."""
    improvements: list[Improvement]
    """The values that were the best so far, in order. Not to be changed."""

    def gain(self, *, reports: int | None = None, trials: int | None = None) -> float | None:
        """Return by how much the best has improved in the last so many reports or trials, 0 or more.

        None: there are not that many yet, or nothing was reported before them.
        """
        if reports is not None:
            before = self._best_before(self.reports - reports, lambda one: one.reports)
        else:
            assert trials is not None
            before = self._best_before(self.trials - trials, lambda one: one.trials)
        return None if before is None or self.best is None else abs(self.best - before)

    def _best_before(self, number: int, at: Callable[[Improvement], int]) -> float | None:
        found = bisect.bisect_right(self.improvements, number, key=at)
        return self.improvements[found - 1].value if found else None
