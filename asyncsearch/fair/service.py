"""How far each study lags behind its fair share, over time. Pure.

Where shares are not whole, or workers come back late, studies take turns; the lag says whose turn it is. Lags are
relative: their mean is 0.
"""

from __future__ import annotations

from collections.abc import Mapping

REMEMBERED_S = 600.0
"""Seconds of one worker beyond which a lag is forgotten: a worker that was held for a day is not owed for a day."""


class Service:
    """The lag of each study: seconds of workers that it should have had and has not, negative if it had more."""

    def __init__(self, remembered_s: float = REMEMBERED_S) -> None:
        self.remembered_s = remembered_s
        self.lags: dict[str, float] = {}
        self.speeds: dict[str, float] = {}
        """How fast the lags grow since ``hold``, in workers."""
        self._now = 0.0

    def advance(self, now: float) -> None:
        """Let time pass until ``now``, in seconds."""
        seconds, self._now = max(0.0, now - self._now), max(now, self._now)
        if not self.speeds:
            return
        lags = {study: self.lags.get(study, 0.0) + speed * seconds for study, speed in self.speeds.items()}
        least = max(lags.values()) - 2 * self.remembered_s
        kept = {study: max(lag, least) for study, lag in lags.items()}
        mean = sum(kept.values()) / len(kept)
        self.lags = {study: lag - mean for study, lag in kept.items()}

    def hold(self, rates: Mapping[str, float], held: Mapping[str, int]) -> None:
        """Set what each study should have and has from now on, in workers.

        A study that can use nothing is owed nothing. Workers beyond a study's share count against it only as far as
        other studies miss them. What nobody has, since it is too little for a gang, is missed by all in proportion.
        """
        missing = {study: max(0.0, rate - held.get(study, 0)) for study, rate in rates.items()}
        beyond = {study: max(0.0, held.get(study, 0) - rate) for study, rate in rates.items()}
        surplus, total = sum(beyond.values()), sum(rates.values())
        part = min(1.0, sum(missing.values()) / surplus) if surplus else 0.0
        idle = max(0.0, sum(missing.values()) - surplus) / total if total else 0.0
        self.speeds = {study: missing[study] - part * beyond[study] - idle * rate for study, rate in rates.items()}
        self.lags = {study: self.lags.get(study, 0.0) for study, rate in rates.items() if rate > 0}
