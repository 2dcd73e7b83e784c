"""SHA: synchronous successive halving.

Li et al., "A System for Massively Parallel Hyperparameter Tuning", MLSys 2020, Algorithm 1::

    for each bracket of n trials:
        for k = 0, 1, ...:
            train all trials of rung k to r·ηᵏ, and wait for the last of them
            the best ⌊n/ηᵏ⁺¹⌋ go on

A trial that is certain to go on does not wait: while m are missing, the best k - m of those that are there will be
among the best k. While a bracket waits for its slowest trial, idle workers begin the trials of the next one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from asyncsearch.ids import TrialId
from asyncsearch.schedulers import reasons
from asyncsearch.schedulers.base_scheduler import Promotion, RungForecast, Scheduler, SchedulerState
from asyncsearch.schedulers.bracket import SynchronousBracket
from asyncsearch.schedulers.rungs import Progress, check_whole, competing, halving_forecast, rung_levels
from asyncsearch.space import Space
from asyncsearch.trial import Params


@dataclass(frozen=True, kw_only=True, slots=True)
class SHA(Scheduler):
    """Train the trials of a bracket a little, wait for all of them, and train the best of them η times as long.

    Args:
        max_resource: Resource R at which a trial is complete.
        min_resource: No rung lies below it. The rungs are R, R // η, R // η², ...
        reduction_factor: η, an integer from 2; 3 for the reason given at ``ASHA``.
        bracket_size: How many trials compete with each other. None means all that a run asks for, or all that the
            searcher has. A later run that asks for more opens a further bracket: a rung that was decided stays as it
            is.

    Raises:
        ResourceError: values that are not positive integers, or that do not fit together.
    """

    max_resource: int = field()
    min_resource: int = 1
    reduction_factor: int = 3
    bracket_size: int | None = None

    def __post_init__(self) -> None:
        rung_levels(self.min_resource, self.max_resource, self.reduction_factor)
        if self.bracket_size is not None:
            check_whole("bracket_size", self.bracket_size, 1)

    @property
    def levels(self) -> tuple[int, ...]:
        """Resources of the rungs, lowest first."""
        return rung_levels(self.min_resource, self.max_resource, self.reduction_factor)

    @property
    def pauses(self) -> bool:
        return len(self.levels) > 1

    def begin(self, space: Space | None = None, seed: int = 0) -> SHAState:
        return SHAState([Shape(self.levels, self.bracket_size)], self.reduction_factor, is_early=True)

    def describe(self) -> str:
        return f"{reasons.call(self, 'reduction_factor', hidden='min_resource')}: {reasons.rungs(self.levels)}"

    def forecast(self, num_trials: int) -> list[RungForecast]:
        return halving_forecast(self.levels, self._groups(num_trials), self.reduction_factor)

    def warnings(self, num_trials: int | None) -> list[str]:
        notes = reasons.one_rung(self.levels, self.min_resource, self.reduction_factor)
        notes += reasons.not_at_min(self.levels, self.min_resource, self.reduction_factor)
        sizes = [size for _, size in self._groups(self.bracket_size or 0 if num_trials is None else num_trials)]
        return notes + [note for number, size in enumerate(sizes) for note in self._too_few(size, is_rest=number > 0)]

    def _too_few(self, size: int, is_rest: bool) -> list[str]:
        trials = "1 trial" if size == 1 else f"{size} trials"
        what = f"the last bracket has {trials}," if is_rest else f"a bracket has {trials},"
        need = self.reduction_factor ** (len(self.levels) - 1)
        if is_rest:
            remedies = [f"num_trials as a multiple of bracket_size={self.bracket_size}"]
        else:
            remedies = [f"{'num_trials' if self.bracket_size is None else 'bracket_size and num_trials'} >= {need}"]
        return reasons.too_few(size, what, self.levels, self.min_resource, self.reduction_factor, remedies)

    def _groups(self, num_trials: int) -> list[tuple[int, int]]:
        return competing(num_trials, self.bracket_size or num_trials)


class Shape(NamedTuple):
    """The rungs and the size of a bracket."""

    levels: tuple[int, ...]
    size: int | None
    """Number of trials that compete with each other. None if that is all that there will be."""


class SHAState(SchedulerState):
    """Brackets in the order in which they were opened, their shapes in turn. Only the last may still take trials."""

    promotes_in_groups = True
    closes_brackets = True

    def __init__(self, shapes: Sequence[Shape], reduction_factor: int, *, is_early: bool = False) -> None:
        """Begin; ``is_early``: trials go on before their rung is full if they are certain to."""
        self._is_early = is_early
        self._shapes = tuple(shapes)
        self._reduction_factor = reduction_factor
        self._progress = Progress()
        self._created = 0
        self._brackets: list[SynchronousBracket] = []
        self._first_trials: list[TrialId] = []  # of each bracket
        self._losers: set[TrialId] = set()  # those that wait at a rung that is decided
        self._ready: list[int] = []  # brackets with a candidate, so that a question does not visit them all
        self._totals: list[int] = []  # num_trials of the runs, increasing; no bracket spans one
        self._is_endless = True  # whether the present run creates trials beyond the last total

    def run_requested(self, num_trials: int | None) -> None:
        self._is_endless = num_trials is None
        if num_trials is None:
            return
        total = max(num_trials, self._created)
        self._totals = [*self._totals[: bisect_left(self._totals, total)], total]
        # Else a run for fewer trials than the last one would wait for trials that will never be created.
        bracket = self._filling()
        if bracket is not None and (bracket.size is None or bracket.start + bracket.size > total):
            self._close(total - bracket.start)

    def no_more_trials(self) -> None:
        bracket = self._filling()
        if bracket is not None:
            self._close(bracket.created)

    def may_create(self, trial: TrialId) -> bool:
        return self._filling() is not None or self._is_endless or self._created < self._totals[-1]

    def first_target(self, trial: TrialId) -> int:
        bracket = self._filling()
        return self._shape(len(self._brackets)).levels[0] if bracket is None else bracket.levels[0]

    def next_promotion(self) -> Promotion | None:
        return self._brackets[self._ready[0]].next_promotion() if self._ready else None

    def may_promote(self, trial: TrialId) -> bool:
        return self._brackets[self._bracket_of(trial)].may_promote(trial)

    def losers(self) -> Sequence[TrialId]:
        return sorted(self._losers) if self._losers else ()

    def position(self, trial: TrialId) -> str:
        if not self._progress.knows(trial):
            return ""
        number = self._bracket_of(trial)
        place = self._brackets[number].position(trial)
        if trial in self._losers:
            place = place.replace(reasons.WAITS_THERE, "that is decided")
        return f"bracket {number}: {place}"

    def created(self, trial: TrialId, params: Params) -> None:
        bracket = self._filling() or self._open(trial)
        bracket.create(trial)
        self._created += 1

    def paused(self, trial: TrialId, resource: int, score: float | None) -> None:
        number = self._bracket_of(trial)
        self._brackets[number].pause(trial, resource, score)
        self._advance(number)

    def promoted(self, trial: TrialId, from_resource: int, to_resource: int) -> None:
        number = self._bracket_of(trial)
        self._brackets[number].promote(trial, from_resource)
        self._advance(number)

    def stopped(self, trial: TrialId, resource: int, score: float | None) -> None:
        self.ended(trial, resource, None)

    def ended(self, trial: TrialId, resource: int, score: float | None) -> None:
        number = self._bracket_of(trial)
        self._brackets[number].end(trial, score)
        self._losers.discard(trial)
        self._advance(number)

    def _filling(self) -> SynchronousBracket | None:
        """Return the bracket that still takes trials."""
        return self._brackets[-1] if self._brackets and not self._brackets[-1].is_full else None

    def _open(self, trial: TrialId) -> SynchronousBracket:
        next_total = bisect_right(self._totals, self._created)
        levels, size = self._shape(len(self._brackets))
        if next_total < len(self._totals):
            room = self._totals[next_total] - self._created
            size = room if size is None else min(size, room)
        rule = self._reduction_factor, self._progress
        bracket = SynchronousBracket(levels, *rule, self._created, size, is_early=self._is_early)
        self._brackets.append(bracket)
        self._first_trials.append(trial)
        return bracket

    def _shape(self, number: int) -> Shape:
        return self._shapes[number % len(self._shapes)]

    def _close(self, size: int) -> None:
        self._brackets[-1].close(size)
        self._advance(len(self._brackets) - 1)
        self._note_losers(len(self._brackets) - 1)

    def _advance(self, number: int) -> None:
        bracket = self._brackets[number]
        stage = bracket.stage
        bracket.advance()
        if bracket.stage > stage:
            self._note_losers(number)
        place = bisect_left(self._ready, number)
        was_ready = place < len(self._ready) and self._ready[place] == number
        if bracket.is_ready and not was_ready:
            insort(self._ready, number)
        elif was_ready and not bracket.is_ready:
            del self._ready[place]

    def _note_losers(self, number: int) -> None:
        first = self._first_trials[number]
        trials = map(TrialId, range(first, first + self._brackets[number].created))
        self._losers.update(filter(self._brackets[number].has_lost, trials))

    def _bracket_of(self, trial: TrialId) -> int:
        """Return the bracket of a trial. Trials are created in the order of their ids, so the first ids are sorted."""
        return bisect_right(self._first_trials, trial) - 1

    def snapshot(self) -> dict[str, Any]:
        return {
            "progress": self._progress.snapshot(),
            "created": self._created,
            "brackets": [bracket.snapshot() for bracket in self._brackets],
            "first_trials": list(self._first_trials),
            "totals": list(self._totals),
            "is_endless": self._is_endless,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._progress = Progress.restored(snapshot["progress"])
        self._created = snapshot["created"]
        self._brackets = [
            SynchronousBracket.restored(
                self._shape(number).levels, self._reduction_factor, self._progress, bracket, is_early=self._is_early
            )
            for number, bracket in enumerate(snapshot["brackets"])
        ]
        self._first_trials = list(snapshot["first_trials"])
        self._totals = list(snapshot["totals"])
        self._is_endless = snapshot["is_endless"]
        self._ready = [number for number, bracket in enumerate(self._brackets) if bracket.is_ready]
        self._losers = set()
        for number in range(len(self._brackets)):
            self._note_losers(number)
