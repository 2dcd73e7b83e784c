"""How far each study lags behind its fair share, over time. Pure.

Where shares are not whole, or workers come back late, studies take turns; the lag says whose turn it is.
"""

from __future__ import annotations

from collections.abc import Mapping

REMEMBERED_S = 600.0
"""Seconds of one worker beyond which a lag is forgotten: a worker that was held for a day is not owed for a day."""


class Service:
    """The lag of each study: seconds of workers that it should have had and has not, negative if it had more."""

    def __init__(self, remembered_s: float = REMEMBERED_S) -> None:
        self._remembered_s = remembered_s
        self.lags: dict[str, float] = {}
        self.speeds: dict[str, float] = {}
        """How fast the lags grow since ``hold``, in workers."""
        self._now = 0.0

    def advance(self, now: float) -> None:
        """Let time pass until ``now``, in seconds."""
        seconds, self._now = max(0.0, now - self._now), max(now, self._now)
        for study, speed in self.speeds.items():
            lag = self.lags.get(study, 0.0) + speed * seconds
            self.lags[study] = max(-self._remembered_s, min(self._remembered_s, lag))

    def hold(self, rates: Mapping[str, float], held: Mapping[str, int]) -> None:
        """Set what each study should have and has from now on, in workers.

        A study that can use nothing is owed nothing. Workers beyond a study's share count against it only as far as
        other studies miss them.
        """
        missing = {study: max(0.0, rate - held.get(study, 0)) for study, rate in rates.items()}
        beyond = {study: max(0.0, held.get(study, 0) - rate) for study, rate in rates.items()}
        surplus = sum(beyond.values())
        part = min(1.0, sum(missing.values()) / surplus) if surplus else 0.0
        self.speeds = {study: missing[study] - part * beyond[study] for study in rates}
        self.lags = {study: self.lags.get(study, 0.0) for study, rate in rates.items() if rate > 0}
