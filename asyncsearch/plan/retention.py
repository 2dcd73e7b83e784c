"""Which checkpoints of finished trials are kept: those of the best. Pure.

Checkpoints of unfinished trials are reachable, since the trial may go on from them, and are not this module's business.
"""

from __future__ import annotations

import bisect

from asyncsearch.ids import TrialId


class Podium:
    """The ``size`` best finished trials that have a checkpoint."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._entries: list[tuple[float, TrialId]] = []

    def offer(self, trial: TrialId, score: float | None) -> TrialId | None:
        """Offer a finished trial (smaller scores are better); return the one that must go, itself perhaps, or None."""
        if score is None or self.size == 0:
            return trial
        bisect.insort(self._entries, (score, trial))
        return self._entries.pop()[1] if len(self._entries) > self.size else None

    def snapshot(self) -> list[tuple[float, TrialId]]:
        """Return the entries, best first."""
        return list(self._entries)

    def restore(self, entries: list[tuple[float, TrialId]]) -> None:
        """Become what a snapshot described."""
        self._entries = [(score, TrialId(trial)) for score, trial in entries]
