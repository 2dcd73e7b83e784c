"""A bracket: trials that compete with each other, and the rungs that each of them reached.

ASHA has one bracket, Hyperband and synchronous halving have several. A subclass sets the quotas of the rungs.
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


class Bracket:
    """Counts trials at rungs. A trial is training towards a rung, waiting at one, promoted from it, or has ended.

    Args:
        levels: Resources of the rungs, lowest first.
        progress: The next rung of each trial; the owner's.
        growth: None: the last level is ``max_resource``. Else the rungs have no end: as soon as a trial is counted at
            the last one, there is one more, this many times as high. So the last one is empty, and no trial ends there.
    """

    __slots__ = ("_growth", "_progress", "levels", "rungs")

    def __init__(self, levels: tuple[int, ...], progress: Progress, growth: int | None = None) -> None:
        self.levels = levels
        self.rungs = [Rung() for _ in levels]
        self._progress = progress
        self._growth = growth

    @property
    def top(self) -> int:
        """Index of the last rung, from which no trial is promoted."""
        return len(self.levels) - 1

    def pause(self, trial: TrialId, resource: int, score: float | None) -> None:
        """Count a trial that pauses at a rung, once."""
        index = self._index(trial, resource)
        if index >= self._progress.next_rung(trial) and not self._progress.has_ended(trial):
            self._count(trial, index, score)
            self._changed(index)

    def promote(self, trial: TrialId, resource: int) -> None:
        """Let a trial train on from the rung at ``resource``."""
        index = self._index(trial, resource)
        self.rungs[index].promote(trial, self._progress.value(trial))
        self._changed(index)

    def end(self, trial: TrialId, score: float | None) -> None:
        """Let a trial end for good: a waiting one keeps its rank, one in training is counted at its next rung."""
        if self._progress.has_ended(trial):
            return
        if self._is_training(trial):
            self._count(trial, self._progress.next_rung(trial), score)
        self._progress.end(trial)
        index = self._progress.next_rung(trial) - 1
        value = self._progress.value(trial)
        if self.rungs[index].is_waiting(trial, value):
            self.rungs[index].withdraw(trial, value)
        self._changed(index)

    def is_bound_for_top(self, trial: TrialId) -> bool:
        """Return whether the trial is training towards ``max_resource``."""
        return self._progress.next_rung(trial) == self.top and self._is_training(trial)

    def promotion(self, index: int, entry: RankedTrial) -> Promotion:
        """Return the promotion of an entry of a rung to the rung above."""
        score, trial = entry
        rung, here, above = self.rungs[index], self.levels[index], self.levels[index + 1]
        place = reasons.place(rung.rank(trial, score), rung.size, here)
        return Promotion(trial, here, above, f"{place}, {reasons.go_on(rung.quota)} to {above}")

    def position(self, trial: TrialId) -> str:
        """Return a sentence on the rung and the rank of a trial; empty for an unknown one."""
        if not self._progress.knows(trial):
            return ""
        index = self._progress.next_rung(trial) - 1
        if index < 0:
            return reasons.towards(self.levels[0])
        rung, level, value = self.rungs[index], self.levels[index], self._progress.value(trial)
        if value is None:
            return (
                f"counts as the worst of {rung.size} at resource {level}: it failed or had no finite value, so it does "
                "not go on"
            )
        place = reasons.place(rung.rank(trial, value), rung.size, level)
        if index == self.top:
            return f"{place}, the last rung"
        place = f"{place}, {reasons.go_on(rung.quota)}"
        if self._progress.has_ended(trial):
            return f"{place}; it ended there"
        if rung.is_waiting(trial, value):
            return f"{place}; {reasons.WAITS_THERE}"
        return f"{place}; {reasons.towards(self.levels[index + 1])}"

    def rungs_snapshot(self) -> list[dict[str, Any]]:
        """Return the rungs as JSON values; the progress belongs to the owner."""
        return [rung.snapshot() for rung in self.rungs]

    def restore_rungs(self, progress: Progress, snapshot: list[dict[str, Any]]) -> None:
        """Take the rungs from a snapshot; the next rung of each trial is what ``progress`` says."""
        self._progress = progress
        self.rungs = [Rung.restored(rung) for rung in snapshot]
        while self._growth is not None and len(self.levels) < len(self.rungs):
            self.levels = levels_up_to(self.levels, self.levels[-1], self._growth)

    def _changed(self, index: int) -> None:
        """The trials at a rung have changed."""

    def _count(self, trial: TrialId, index: int, score: float | None) -> None:
        """Count a trial at a rung; rungs without end grow before a trial can be at the last one."""
        self.rungs[index].insert(trial, score)
        self._progress.record(trial, index, score)
        if index == self.top and self._growth is not None:
            self.levels = levels_up_to(self.levels, self.levels[-1], self._growth)
            self.rungs += [Rung() for _ in self.levels[len(self.rungs) :]]

    def _is_training(self, trial: TrialId) -> bool:
        """Return whether the trial is between rungs: new, or promoted. One without a finite value stays where it is."""
        index, value = self._progress.next_rung(trial) - 1, self._progress.value(trial)
        if self._progress.has_ended(trial) or index == self.top:
            return False
        return index < 0 or (value is not None and not self.rungs[index].is_waiting(trial, value))

    def _index(self, trial: TrialId, resource: int) -> int:
        index = bisect_left(self.levels, resource)
        if index > self.top or self.levels[index] != resource:
            raise InternalError(f"{trial_name(trial)} is at resource {resource}, the rungs are {self.levels}.")
        return index
