"""A bracket: trials that compete with each other, and the rungs that each of them reached.

ASHA has one bracket, Hyperband and synchronous halving have several. In an asynchronous bracket trials never wait for
each other, in a synchronous one they do at every rung: each sets the quotas of the rungs in its own way.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import msgspec

from asyncsearch.errors import InternalError
from asyncsearch.ids import TrialId, trial_name
from asyncsearch.schedulers import reasons
from asyncsearch.schedulers.base_scheduler import Promotion
from asyncsearch.schedulers.order_statistics import RankedTrial
from asyncsearch.schedulers.rungs import Progress, Rung, levels_up_to


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
        """Take the rungs from a snapshot; ``progress`` has the next rung of each trial."""
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


class AsynchronousBracket(Bracket):
    """Promotes a trial as soon as it is among the best ⌊n/η⌋ of its rung."""

    __slots__ = ("_reduction_factor", "ready")

    def __init__(
        self, levels: tuple[int, ...], reduction_factor: int, progress: Progress, *, is_endless: bool = False
    ) -> None:
        super().__init__(levels, progress, reduction_factor if is_endless else None)
        self._reduction_factor = reduction_factor
        self.ready = -1
        """Index of the highest rung from which a trial may be promoted. -1 if there is none."""

    def next_promotion(self) -> Promotion | None:
        """Return the promotion of the best candidate of the highest rung that has one."""
        candidate = self.rungs[self.ready].candidate if self.ready >= 0 else None
        return None if candidate is None else self.promotion(self.ready, candidate)

    def promotion_of(self, trial: TrialId) -> Promotion | None:
        """Return the promotion of a trial. None if it does not wait, or is not among the best of its rung."""
        index, value = self._progress.next_rung(trial) - 1, self._progress.value(trial)
        if value is None or not 0 <= index < self.top or not self.rungs[index].is_waiting(trial, value):
            return None
        is_due = self.rungs[index].rank(trial, value) <= self.rungs[index].quota
        return self.promotion(index, (value, trial)) if is_due else None

    def may_promote(self, trial: TrialId, trials: int | None) -> bool:
        """Return whether a trial that waits at a rung may still be promoted, or is the best there.

        Args:
            trial: of the bracket.
            trials: the most that the bracket will have. None if there is no bound.
        """
        index, value = self._progress.next_rung(trial) - 1, self._progress.value(trial)
        if value is None or trials is None:
            return value is not None
        return self.rungs[index].rank(trial, value) <= max(1, self._most_at(index, trials) // self._reduction_factor)

    def _most_at(self, index: int, trials: int) -> int:
        """Return the most trials that a rung will have: more than ⌊n/η⌋ go on where later ones are better."""
        most = trials
        for rung in self.rungs[:index]:
            most = rung.promoted + (most - rung.size) + min(rung.waiting, most // self._reduction_factor)
        return most

    def _changed(self, index: int) -> None:
        """Set the quota of the rung: the best ⌊n/η⌋ of Algorithm 2."""
        rung = self.rungs[index]
        rung.allow(rung.size // self._reduction_factor)
        self._update_ready(index)

    def _update_ready(self, index: int) -> None:
        rungs = self.rungs
        if rungs[index].candidate is not None:
            if self.ready < index < self.top:
                self.ready = index
        elif index == self.ready:
            self.ready = next((below for below in range(index - 1, -1, -1) if rungs[below].candidate is not None), -1)

    def restore_rungs(self, progress: Progress, snapshot: list[dict[str, Any]]) -> None:
        super().restore_rungs(progress, snapshot)
        self.ready = -1
        for index in range(self.top):
            self._update_ready(index)


class SynchronousBracket(Bracket):
    """Decides each rung when all trials that train towards it have reached it or failed.

    If it is early, trials go on before that which are certain to: while m are missing, the best k - m of those that are
    there will be among the best k.
    """

    __slots__ = ("_is_early", "_reduction_factor", "_stage", "created", "size", "start")

    def __init__(
        self,
        levels: tuple[int, ...],
        reduction_factor: int,
        progress: Progress,
        start: int,
        size: int | None,
        *,
        is_early: bool = False,
    ) -> None:
        super().__init__(levels, progress)
        self._is_early = is_early
        self.start = start
        """How many trials the brackets before it have."""
        self.size = size
        """Number of trials that it will have. None if that is all that there will be."""
        self.created = 0
        self._reduction_factor = reduction_factor
        self._stage = 0  # the rung that is being filled, or from which trials are being promoted

    @property
    def is_full(self) -> bool:
        """Whether no further trial belongs to it."""
        return self.size is not None and self.created >= self.size

    def create(self, trial: TrialId) -> None:
        """A trial of the bracket began."""
        self.created += 1
        self._progress.begin(trial)

    def close(self, size: int) -> None:
        """Accept no more than this many trials."""
        self.size = size
        self.advance()

    @property
    def is_ready(self) -> bool:
        """Whether a rung is decided and not all of its best trials are promoted yet."""
        return self._stage < self.top and self.rungs[self._stage].candidate is not None

    def next_promotion(self) -> Promotion | None:
        """Return the promotion of the best trial that goes on from the present rung and is not promoted yet."""
        candidate = self.rungs[self._stage].candidate
        return None if candidate is None or not self.is_ready else self.promotion(self._stage, candidate)

    def promotion(self, index: int, entry: RankedTrial) -> Promotion:
        found, missing = super().promotion(index, entry), self._missing()
        if not missing:
            return found
        place = reasons.place(self.rungs[index].rank(entry[1], entry[0]), self.rungs[index].size, found.from_resource)
        others = "the one that is missing reports" if missing == 1 else f"the {missing} that are missing report"
        best = f"among the best {self._passing(self.size or 0)} whatever {others}"
        return msgspec.structs.replace(found, reason=f"{place}, {best}: goes on to {found.to_resource}")

    def may_promote(self, trial: TrialId) -> bool:
        """Return whether a trial that waits at a rung may still be promoted, or is the best there."""
        index, value = self._progress.next_rung(trial) - 1, self._progress.value(trial)
        if value is None or self.size is None or index > self._stage:
            return value is not None
        return self.rungs[index].rank(trial, value) <= max(1, self._passing(self.size))

    def advance(self) -> None:
        """Decide the rung if its last trial is there; turn to the rung above when all that may are promoted."""
        while self._stage < self.top:
            rung, missing = self.rungs[self._stage], self._missing()
            if missing is None:
                return
            if missing:
                if self._is_early and self.size is not None:
                    rung.allow(max(0, self._passing(self.size) - missing))
                return
            rung.allow(self._passing(self.created))
            if rung.candidate is not None:
                return
            self._stage += 1

    def has_lost(self, trial: TrialId) -> bool:
        """Return whether a trial of the bracket waits at a rung that is decided, and others have gone on from there."""
        reached = self._progress.next_rung(trial) - 1
        return 0 <= reached < self._stage and not self._progress.has_ended(trial) and not self._is_training(trial)

    @property
    def stage(self) -> int:
        """Index of the rung that is being filled, or from which trials are being promoted."""
        return self._stage

    def _passing(self, trials: int) -> int:
        """Return how many of so many trials of the bracket go on from the present rung.

        Of the bracket's size and not of the rung's, which is smaller where few had a finite value.
        """
        share: int = self._reduction_factor ** (self._stage + 1)
        return trials // share

    def _missing(self) -> int | None:
        """Return how many trials have yet to reach the present rung. None if it is not known."""
        if self._stage:
            return self.rungs[self._stage - 1].promoted - self.rungs[self._stage].size
        return None if self.size is None else self.size - self.rungs[0].size

    def snapshot(self) -> dict[str, Any]:
        """Return everything as JSON values; the progress belongs to the owner."""
        return {
            "start": self.start,
            "size": self.size,
            "created": self.created,
            "stage": self._stage,
            "rungs": self.rungs_snapshot(),
        }

    @classmethod
    def restored(
        cls,
        levels: tuple[int, ...],
        reduction_factor: int,
        progress: Progress,
        snapshot: dict[str, Any],
        *,
        is_early: bool = False,
    ) -> SynchronousBracket:
        """Return the bracket that ``snapshot`` described."""
        bracket = cls(levels, reduction_factor, progress, snapshot["start"], snapshot["size"], is_early=is_early)
        bracket.created = snapshot["created"]
        bracket._stage = snapshot["stage"]
        bracket.restore_rungs(progress, snapshot["rungs"])
        return bracket
