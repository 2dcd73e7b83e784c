"""The rungs of trials that compete with each other, and the way of each trial along them.

ASHA has one ladder; synchronous halving has one for each bracket. The owner sets the rungs' quotas.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from asyncsearch.errors import InternalError
from asyncsearch.ids import TrialId, trial_name
from asyncsearch.schedulers import reasons
from asyncsearch.schedulers.base_scheduler import Promotion
from asyncsearch.schedulers.progress import Progress
from asyncsearch.schedulers.ranking import RankedTrial
from asyncsearch.schedulers.rungs import Rung, levels_up_to


class BracketRungs:
    """Moves trials: on their way to a rung, waiting there, gone on, ended.

    Args:
        levels: Resources of the rungs, lowest first.
        progress: Where the trials stand; the owner's.
        growth: None: the last level is ``max_resource``. Else the ladder is endless: as soon as somebody is counted at
            the last rung, there is one more, this many times as high. So the last one is empty, and nobody ends there.
    """

    __slots__ = ("_growth", "_progress", "levels", "rungs")

    def __init__(self, levels: tuple[int, ...], progress: Progress, growth: int | None = None) -> None:
        self.levels = levels
        self.rungs = [Rung() for _ in levels]
        self._progress = progress
        self._growth = growth

    @property
    def top(self) -> int:
        """Index of the last rung, from which nothing goes on."""
        return len(self.levels) - 1

    def arrive(self, trial: TrialId, resource: int, score: float | None) -> int | None:
        """Record a trial that pauses at a rung; return the rung's index, or None if it was recorded there before."""
        index = self._index(trial, resource)
        if index < self._progress.heading(trial) or self._progress.has_ended(trial):
            return None
        self._count(trial, index, score)
        return index

    def promote(self, trial: TrialId, resource: int) -> int:
        """Let a trial go on from the rung at ``resource``; return the rung's index."""
        index = self._index(trial, resource)
        self.rungs[index].promote(trial, self._progress.value(trial))
        return index

    def end(self, trial: TrialId, score: float | None) -> int | None:
        """Let a trial end for good: one that waits keeps its rank, one on its way counts at the rung it headed for.

        Returns:
            The index of the rung that was touched, or None if the trial had ended before.
        """
        if self._progress.has_ended(trial):
            return None
        if self._is_on_its_way(trial):
            index = self._progress.heading(trial)
            self._count(trial, index, score)
        self._progress.end(trial)
        index = self._progress.heading(trial) - 1
        value = self._progress.value(trial)
        if self.rungs[index].is_waiting(trial, value):
            self.rungs[index].withdraw(trial, value)
        return index

    def is_bound_for_top(self, trial: TrialId) -> bool:
        """Return whether the trial is on its way to ``max_resource``."""
        return self._progress.heading(trial) == self.top and self._is_on_its_way(trial)

    def promotion(self, index: int, entry: RankedTrial) -> Promotion:
        """Return the promotion of an entry of a rung to the rung above."""
        score, trial = entry
        rung, here, above = self.rungs[index], self.levels[index], self.levels[index + 1]
        reason = reasons.promoted(rung.rank(trial, score), rung.size, rung.quota, here, above)
        return Promotion(trial, here, above, reason)

    def standing(self, trial: TrialId) -> str:
        """Return a sentence on where the trial stands; empty for one that is unknown."""
        if not self._progress.knows(trial):
            return ""
        index = self._progress.heading(trial) - 1
        if index < 0:
            return reasons.on_its_way(self.levels[0])
        rung, level, value = self.rungs[index], self.levels[index], self._progress.value(trial)
        if value is None:
            return reasons.worst(rung.size, level)
        place = reasons.place(rung.rank(trial, value), rung.size, level)
        if index == self.top:
            return f"{place}, the last rung"
        place = f"{place}, {reasons.go_on(rung.quota)}"
        if self._progress.has_ended(trial):
            return f"{place}; it ended there"
        if rung.is_waiting(trial, value):
            return f"{place}; it waits there"
        return f"{place}; {reasons.on_its_way(self.levels[index + 1])}"

    def snapshot(self) -> list[dict[str, Any]]:
        """Return the rungs as JSON values; the progress belongs to the owner."""
        return [rung.snapshot() for rung in self.rungs]

    def restore(self, progress: Progress, snapshot: list[dict[str, Any]]) -> None:
        """Become the ladder that ``snapshot`` described, of trials that stand where ``progress`` says."""
        self._progress = progress
        self.rungs = [Rung.restored(rung) for rung in snapshot]
        while self._growth is not None and len(self.levels) < len(self.rungs):
            self.levels = levels_up_to(self.levels, self.levels[-1], self._growth)

    def _count(self, trial: TrialId, index: int, score: float | None) -> None:
        """Count a trial at a rung; an endless ladder grows before somebody could stand at its end."""
        self.rungs[index].insert(trial, score)
        self._progress.arrive(trial, index, score)
        if index == self.top and self._growth is not None:
            self.levels = levels_up_to(self.levels, self.levels[-1], self._growth)
            self.rungs += [Rung() for _ in self.levels[len(self.rungs) :]]

    def _is_on_its_way(self, trial: TrialId) -> bool:
        """Return whether the trial is between rungs: new, or promoted. One without a finite value stays where it is."""
        index, value = self._progress.heading(trial) - 1, self._progress.value(trial)
        if self._progress.has_ended(trial) or index == self.top:
            return False
        return index < 0 or (value is not None and not self.rungs[index].is_waiting(trial, value))

    def _index(self, trial: TrialId, resource: int) -> int:
        index = bisect_left(self.levels, resource)
        if index > self.top or self.levels[index] != resource:
            raise InternalError(f"{trial_name(trial)} stands at resource {resource}, the rungs are {self.levels}.")
        return index
