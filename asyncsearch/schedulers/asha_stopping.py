"""ASHA's stopping variant: a trial is judged once at each rung, when it passes it.

The rule that other libraries run as ASHA (Ray Tune, Syne Tune, Optuna, Determined), with exact ranks: a trial trains on
if it is among the best max(⌊n/η⌋, 1) of the n trials, including itself, that have reached the rung; else it is stopped.
In a tie the trials that trained on are ahead and those that were stopped are not, so that a constant metric passes
exactly that many; if every older trial were ahead, it would pass one in all.

A trial that has no value at or before the rung counts there once it has one, with its first: a metric that is not
there yet is not a bad one.

``reported`` decides: it ranks the trial and keeps the rank. After all trials that read the report were ranked, the
engine asks ``judge``, which returns the reason to stop, if there is one. The engine then ends the trial.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import msgspec

from asyncsearch.ids import TrialId
from asyncsearch.schedulers import reasons
from asyncsearch.schedulers.base_scheduler import Promotion, SchedulerState
from asyncsearch.schedulers.rungs import Progress, Rung, levels_up_to
from asyncsearch.trial import Params
from asyncsearch.values import finite


class Crossing(msgspec.Struct, frozen=True):
    """A trial's latest report that passed a rung, and its rank there at that moment.

    Several trials may read one report; each is ranked as it reads, and judged after all of them have read.
    """

    trial: TrialId
    resource: int
    rung: int
    rank: int | None
    """Its rank at the rung; None if its value there is not finite."""
    size: int
    """How many trials were at the rung then, including itself."""
    quota: int
    """How many of those train on."""


class StoppingState(SchedulerState):
    """The rungs, lowest first, the last value of each trial, and the report to judge.

    If it is endless, there are rungs r·ηᵏ beyond the last level too; they are added as reports come near.
    """

    def __init__(self, levels: tuple[int, ...], reduction_factor: int, *, is_endless: bool = False) -> None:
        self._levels = levels
        self._reduction_factor = reduction_factor
        self._is_endless = is_endless
        self._progress = Progress()
        self._rungs = [Rung() for _ in levels]
        self._crossings: dict[TrialId, Crossing] = {}
        self._with_value: set[TrialId] = set()
        """Trials that train and have a value, be it one that is not finite."""

    def first_target(self, trial: TrialId) -> int | None:
        return None if self._is_endless else self._levels[-1]

    def judge(self, trial: TrialId, resource: int) -> str | None:
        crossing = self._crossings.get(trial)
        if crossing is None or crossing.resource != resource or crossing.rung == len(self._levels) - 1:
            return None
        rank, size, level = crossing.rank, crossing.size, self._levels[crossing.rung]
        if rank is None and resource == level:
            return f"stopped at resource {resource}: its value there is not finite, which counts as the worst of {size}"
        if rank is None:
            return (
                f"stopped at resource {resource}: its value at the rung of {level} is not finite, which counts as the "
                f"worst of {size}"
            )
        if rank <= crossing.quota:
            return None
        where = f" at the rung of {level}" if resource != level else ""
        return f"stopped at resource {resource}: rank {rank} of {size}{where}, {reasons.go_on(crossing.quota)}"

    def judged_next(self, trial: TrialId, resource: int) -> int | None:
        levels = self._levels
        if self._is_endless:
            levels = levels_up_to(levels, resource, self._reduction_factor)
        elif resource >= levels[-2:][0]:
            return None
        return levels[bisect_right(levels, resource)]

    def next_promotion(self) -> Promotion | None:
        return None

    def position(self, trial: TrialId) -> str:
        if not self._progress.knows(trial):
            return ""
        index = self._progress.next_rung(trial) - 1
        if index < 0:
            return reasons.towards(self._levels[0])
        rung, level = self._rungs[index], self._levels[index]
        return f"one of {rung.size} that passed the rung of {level}; {reasons.go_on(self._quota(rung))}"

    def created(self, trial: TrialId, params: Params) -> None:
        self._progress.begin(trial)

    def reported(self, trial: TrialId, resource: int, score: float | None) -> None:
        # A report that was in flight when the trial was stopped must not count at the next rung.
        if self._progress.has_ended(trial):
            return
        before = self._progress.value(trial) if trial in self._with_value else score
        self._with_value.add(trial)
        self._progress.set_value(trial, score)
        self._crossings.pop(trial, None)
        if self._is_endless:
            self._grow(resource)
        index = bisect_right(self._levels, resource) - 1
        # A skipped rung is never filled in later: a late value there would be unfair to trials that were in time.
        if index >= self._progress.next_rung(trial):
            value = finite(score if resource == self._levels[index] else before)
            rank, rung = self._record(trial, index, value), self._rungs[index]
            self._crossings[trial] = Crossing(trial, resource, index, rank, rung.size, self._quota(rung))

    def stopped(self, trial: TrialId, resource: int, score: float | None) -> None:
        self._crossings.pop(trial, None)
        self._with_value.discard(trial)
        self._progress.end(trial)

    def ended(self, trial: TrialId, resource: int, score: float | None) -> None:
        """Count a trial that ended between two rungs at the upper one, with its last value; a failed one as worst."""
        index = self._progress.next_rung(trial)
        if index < len(self._levels) and not self._progress.has_ended(trial):
            self._record(trial, index, finite(score))
        self._crossings.pop(trial, None)
        self._with_value.discard(trial)
        self._progress.end(trial)

    def _record(self, trial: TrialId, index: int, value: float | None) -> int | None:
        """Count a trial at a rung, as promoted if it is among the best; return its rank."""
        rung = self._rungs[index]
        rank = None if value is None else rung.rank_of_newcomer(value)
        rung.insert(trial, value)
        if rank is not None and rank <= self._quota(rung):
            rung.promote(trial, value)
        self._progress.pass_rung(trial, index)
        return rank

    def _grow(self, resource: int) -> None:
        """Add rungs until the last one lies beyond a resource: no trial ends there."""
        self._levels = levels_up_to(self._levels, resource, self._reduction_factor)
        self._rungs += [Rung() for _ in self._levels[len(self._rungs) :]]

    def _quota(self, rung: Rung) -> int:
        return max(rung.size // self._reduction_factor, 1)

    def snapshot(self) -> dict[str, Any]:
        rungs = [rung.snapshot() for rung in self._rungs]
        crossings = [msgspec.to_builtins(crossing) for _, crossing in sorted(self._crossings.items())]
        with_value = sorted(self._with_value)
        return {"progress": self._progress.snapshot(), "rungs": rungs, "crossings": crossings, "with_value": with_value}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._progress = Progress.restored(snapshot["progress"])
        self._rungs = [Rung.restored(rung) for rung in snapshot["rungs"]]
        while len(self._levels) < len(self._rungs):
            self._levels = levels_up_to(self._levels, self._levels[-1], self._reduction_factor)
        crossings = [Crossing(**crossing) for crossing in snapshot.get("crossings", [])]
        self._crossings = {crossing.trial: crossing for crossing in crossings}
        # An earlier version did not keep them: a value that is not finite was like none then.
        progress = self._progress
        known = [trial for trial in snapshot["progress"]["trials"] if progress.value(trial) is not None]
        self._with_value = {TrialId(t) for t in snapshot.get("with_value", known) if not progress.has_ended(t)}
