"""The rules of Ray Tune's schedulers told once more, in the plainest form: all results are kept and looked through.

They were compared with Ray 2.60 itself over random sequences, so that the tests need no Ray. A higher score is better.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np


class AshaOfRay:
    """One bracket of ``AsyncHyperBandScheduler``."""

    def __init__(self, max_t: float, grace_period: float, factor: float, *, stop_last: bool, number: int = 0) -> None:
        count = int(np.log(max_t / grace_period) / np.log(factor) - number + 1)
        self._at = [grace_period * factor ** (k + number) for k in range(count)]
        self._passed: dict[float, dict[int, float]] = {at: {} for at in self._at}
        self._max_t, self._factor, self._stop_last = max_t, factor, stop_last

    def stops(self, trial: int, time: float, score: float) -> bool:
        """Take a result, and return whether its trial ends with it."""
        if self._stop_last and time >= self._max_t:
            return True
        for at in sorted(self._at, reverse=True):
            passed = self._passed[at]
            if time < at:
                continue
            if trial in passed:
                if self._stop_last:
                    continue
                return False
            share = (1 - 1 / self._factor) * 100
            is_worse = bool(passed) and score < np.percentile(list(passed.values()), share)
            passed[trial] = score
            return bool(is_worse)
        return False


class MedianOfRay:
    """``MedianStoppingRule``."""

    def __init__(self, grace_period: float, min_samples_required: int) -> None:
        self._grace, self._least = grace_period, min_samples_required
        self._results: dict[int, list[tuple[float, float]]] = defaultdict(list)

    def stops(self, trial: int, time: float, score: float) -> bool:
        """Take a result, and return whether its trial ends with it."""
        self._results[trial].append((time, score))
        others = [its for one, its in self._results.items() if one != trial and its[-1][0] >= time]
        if time < self._grace or len(others) < self._least:
            return False
        means = [np.mean([value for at, value in its if self._grace <= at <= time]) for its in others]
        return bool(np.median(means) > max(value for _, value in self._results[trial]))


class PopulationOfRay:
    """``PopulationBasedTraining``, where no trial waits for another one; the donor is not drawn here."""

    def __init__(self, interval: float, burn_in: float, quantile: float) -> None:
        self._interval, self._burn_in, self._quantile = interval, burn_in, quantile
        self._scores: dict[int, float] = {}
        self._since: dict[int, float] = defaultdict(float)
        self._saved: dict[int, bool] = {}

    def compared(self, trial: int, time: float, score: float) -> list[int] | None:
        """Take a result, and return of which trials one is drawn that the trial goes on from.

        An empty list: it goes on as it is. None: it is not compared yet.
        """
        if time < self._burn_in or time - self._since[trial] < self._interval:
            return None
        self._scores[trial], self._since[trial] = score, time
        ranked = sorted(self._scores, key=lambda one: (self._scores[one], one))
        count = math.ceil(len(ranked) * self._quantile)
        count = len(ranked) // 2 if count > len(ranked) / 2 else count
        lowest, best = ranked[:count], ranked[len(ranked) - count :]
        self._saved[trial] = trial in best
        return best if trial in lowest else []

    def has_saved(self, donor: int) -> bool:
        """Return whether a trial may go on from a donor: one that was among the best when it was compared."""
        return self._saved[donor]

    def take_over(self, trial: int, donor: int) -> None:
        """Let a trial go on from a donor: it is compared next when that one would be."""
        self._since[trial] = self._since[donor]
