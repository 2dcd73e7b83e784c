"""Hyperband: brackets of halving side by side, from early stopping to none.

Li et al., "Hyperband", JMLR 2018, Algorithm 1, and its asynchronous forms in Li et al., "A System for Massively
Parallel Hyperparameter Tuning", MLSys 2020::

    for s = s_max, ..., 0:
        n = ⌈(s_max + 1)/(s + 1) · ηˢ⌉ trials run halving from R·η⁻ˢ

How early a trial may be judged is not known beforehand. So brackets that judge early, and try many configurations, get
as much training as brackets that judge late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from asyncsearch.errors import ResourceError
from asyncsearch.ids import TrialId
from asyncsearch.schedulers import reasons
from asyncsearch.schedulers.base_scheduler import Promotion, RungForecast, Scheduler, SchedulerState
from asyncsearch.schedulers.bracket import AsynchronousBracket
from asyncsearch.schedulers.bracket_allocation import BracketAllocation, Rounds, Shares, bracket_sizes
from asyncsearch.schedulers.rungs import HIGHEST, Progress, check_whole, competing, halving_forecast, rung_levels
from asyncsearch.schedulers.sha import Shape, SHAState
from asyncsearch.space import Space
from asyncsearch.trial import Params


class AsynchronousHyperbandState(SchedulerState):
    """Brackets of ASHA, and the bracket of each trial.

    A bracket lasts for the whole search: a further round widens its rungs, as more trials do in ASHA. Of several
    brackets with a trial to promote, the one that was given the fewest units of training comes first: all brackets have
    the same share of the budget. In a tie that is the one with more rungs.
    There are at most 255 brackets.
    """

    def __init__(self, levels: Sequence[tuple[int, ...]], reduction_factor: int, allocation: BracketAllocation) -> None:
        self._allocation = allocation
        self._progress = Progress()
        self._brackets = [AsynchronousBracket(each, reduction_factor, self._progress) for each in levels]
        self._numbers = bytearray()
        """Bracket of each trial, by its id."""
        self._counts = [0] * len(levels)
        self._next_number = allocation.next_bracket(self._counts)
        """Bracket of the trial that is created next."""
        self._total: int | None = None
        """The most trials that there will be in the present run. None means no bound."""
        self._units = [0] * len(levels)
        """Units of training that each bracket was given: by new trials and by promotions."""

    def first_target(self, trial: TrialId) -> int:
        number = self._numbers[trial] if trial < len(self._numbers) else self._next_number
        return self._brackets[number].levels[0]

    def next_promotion(self) -> Promotion | None:
        ready = [(units, number) for number, units in enumerate(self._units) if self._brackets[number].ready >= 0]
        return self._brackets[min(ready)[1]].next_promotion() if ready else None

    def promotion_of(self, trial: TrialId) -> Promotion | None:
        return self._bracket_of(trial).promotion_of(trial)

    def may_promote(self, trial: TrialId) -> bool:
        if self._total is None:
            return True
        coming = max(0, self._total - len(self._numbers))
        return self._bracket_of(trial).may_promote(trial, self._counts[self._numbers[trial]] + coming)

    def position(self, trial: TrialId) -> str:
        if not self._progress.knows(trial):
            return ""
        number = self._numbers[trial]
        return f"bracket {number}: {self._brackets[number].position(trial)}"

    def run_requested(self, num_trials: int | None) -> None:
        self._total = num_trials

    def no_more_trials(self) -> None:
        self._total = len(self._numbers)

    def created(self, trial: TrialId, params: Params) -> None:
        number = self._next_number
        self._numbers.append(number)
        self._progress.begin(trial)
        self._counts[number] += 1
        self._units[number] += self._brackets[number].levels[0]
        self._next_number = self._allocation.next_bracket(self._counts)

    def paused(self, trial: TrialId, resource: int, score: float | None) -> None:
        self._bracket_of(trial).pause(trial, resource, score)

    def promoted(self, trial: TrialId, from_resource: int, to_resource: int) -> None:
        self._bracket_of(trial).promote(trial, from_resource)
        self._units[self._numbers[trial]] += to_resource - from_resource

    def stopped(self, trial: TrialId, resource: int, score: float | None) -> None:
        self.ended(trial, resource, None)

    def ended(self, trial: TrialId, resource: int, score: float | None) -> None:
        self._bracket_of(trial).end(trial, score)

    def _bracket_of(self, trial: TrialId) -> AsynchronousBracket:
        return self._brackets[self._numbers[trial]]

    def snapshot(self) -> dict[str, Any]:
        return {
            "progress": self._progress.snapshot(),
            "homes": list(self._numbers),
            "races": [bracket.rungs_snapshot() for bracket in self._brackets],
            "units": list(self._units),
            "total": self._total,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._progress = Progress.restored(snapshot["progress"])
        self._numbers = bytearray(snapshot["homes"])
        self._counts = [self._numbers.count(number) for number in range(len(self._brackets))]
        self._next_number = self._allocation.next_bracket(self._counts)
        self._units = list(snapshot["units"])
        self._total = snapshot.get("total")
        for bracket, rungs in zip(self._brackets, snapshot["races"], strict=True):
            bracket.restore_rungs(self._progress, rungs)


_VARIANTS = ("shares", "rounds", "synchronous")
_NAMED = {"aggressive": 1, "standard": 3}


@dataclass(frozen=True, kw_only=True, slots=True)
class Hyperband(Scheduler):
    """Halve in several brackets, each with its own first rung and about the same budget.

    Args:
        max_resource: Resource R at which a trial is complete.
        min_resource: No rung lies below it. A bracket of k rungs has R and the k - 1 below: R // η, R // η², ...
        reduction_factor: η, an integer from 2; 3 for the reason given at ``ASHA``.
        brackets: Which brackets there are: how many, those with the most rungs first; or the rungs of each, such as
            ``(5, 4, 3)``; or ``"aggressive"``, the one with the most rungs; ``"standard"``, the three with the most;
            ``"conservative"`` or None, all of them, down to the one that stops no trial.
        variant: "shares": brackets of ASHA, among which trials are split by the inverse of what they cost on average,
            at every moment of the search. "rounds": brackets of ASHA that get the standard number of trials in turn,
            over and over. "synchronous": the original, in which every turn opens a new bracket that waits at its rungs.

    Raises:
        ResourceError: resources that are not positive integers or do not fit together, or brackets that cannot be.
    """

    max_resource: int = field()
    min_resource: int = 1
    reduction_factor: int = 3
    brackets: int | str | Sequence[int] | None = None
    variant: Literal["shares", "rounds", "synchronous"] = "shares"

    def __post_init__(self) -> None:
        rung_levels(self.min_resource, self.max_resource, self.reduction_factor)
        if self.variant not in _VARIANTS:
            names = ", ".join(f"variant={name!r}" for name in _VARIANTS)
            raise ResourceError(f"variant={self.variant!r} is unknown. Use one of {names}.")
        if isinstance(self.brackets, list):
            object.__setattr__(self, "brackets", tuple(self.brackets))
        self._check_brackets()

    def _check_brackets(self) -> None:
        brackets, most = self.brackets, self._most_rungs
        if brackets is None or (isinstance(brackets, str) and brackets in (*_NAMED, "conservative")):
            return
        if isinstance(brackets, str):
            raise ResourceError(
                f"brackets={brackets!r} is unknown. Use 'aggressive', 'standard' or 'conservative', a number of "
                f"brackets from 1 to {most}, or the rungs of each, e.g. brackets={tuple(range(most, 0, -1))[:3]}."
            )
        if isinstance(brackets, tuple):
            for rungs in brackets:
                check_whole("brackets", rungs, 1)
            near = tuple(sorted({min(rungs, most) for rungs in brackets}, reverse=True)) or (most,)
            if not brackets or len(set(brackets)) < len(brackets):
                what = "names a bracket twice" if brackets else "names no bracket"
                raise ResourceError(f"brackets={brackets} {what}. Use brackets={near}.")
            if max(brackets) > most:
                raise ResourceError(self._impossible(max(brackets), near))
            return
        check_whole("brackets", brackets, 1)
        if isinstance(brackets, int) and brackets > most:
            raise ResourceError(self._impossible(brackets, most))

    def _impossible(self, rungs: int, near: int | tuple[int, ...]) -> str:
        remedies = [f"brackets={near}"]
        # The power of thousands of rungs is too long to be written out, and beyond all resources.
        if rungs <= HIGHEST.bit_length():
            ratio = self.reduction_factor ** (rungs - 1)
            if self.min_resource * ratio <= HIGHEST:
                remedies.append(f"max_resource >= {self.min_resource * ratio}")
            if self.max_resource >= ratio:
                remedies.append(f"min_resource <= {self.max_resource // ratio}")
        return (
            f"brackets={self.brackets} needs {rungs} rungs, and from "
            f"min_resource={self.min_resource} to max_resource={self.max_resource} there are {self._most_rungs}, each "
            f"reduction_factor={self.reduction_factor} times the one below. Use {' or '.join(remedies)}."
        )

    @property
    def _most_rungs(self) -> int:
        return len(rung_levels(self.min_resource, self.max_resource, self.reduction_factor))

    @property
    def rung_counts(self) -> tuple[int, ...]:
        """How many rungs each bracket has, descending: bracket 0 has the most."""
        most, brackets = self._most_rungs, self.brackets
        if isinstance(brackets, tuple):
            return tuple(sorted(brackets, reverse=True))
        count = _NAMED.get(brackets, most) if isinstance(brackets, str) else brackets
        return tuple(range(most, 0, -1))[: count if isinstance(count, int) else most]

    @property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """Resources of the rungs of each bracket, lowest first."""
        levels = rung_levels(self.min_resource, self.max_resource, self.reduction_factor)
        return tuple(levels[-rungs:] for rungs in self.rung_counts)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many trials each bracket gets in its turn, in rounds."""
        return bracket_sizes(self.rung_counts, self.reduction_factor)

    @property
    def pauses(self) -> bool:
        return max(self.rung_counts) > 1

    def begin(self, space: Space | None = None, seed: int = 0) -> SchedulerState:
        if self.variant == "synchronous":
            shapes = [Shape(levels, size) for levels, size in zip(self.levels, self.sizes, strict=True)]
            return SHAState(shapes, self.reduction_factor)
        return AsynchronousHyperbandState(self.levels, self.reduction_factor, self._allocation())

    def _allocation(self) -> BracketAllocation:
        if self.variant == "shares":
            return Shares(self.rung_counts, self.reduction_factor)
        return Rounds(self.sizes)

    def describe(self) -> str:
        brackets = "brackets" if len(self.levels) > 1 else "one bracket"
        starts = ", ".join(str(levels[0]) for levels in self.levels)
        return f"{reasons.call(self, 'reduction_factor')}: {brackets} from {starts} to {self.max_resource}"

    def forecast(self, num_trials: int) -> list[RungForecast]:
        return [
            RungForecast(line.from_resource, line.to_resource, line.trials, bracket)
            for bracket, (levels, groups) in enumerate(zip(self.levels, self._groups(num_trials), strict=True))
            for line in halving_forecast(levels, groups, self.reduction_factor)
        ]

    def warnings(self, num_trials: int | None) -> list[str]:
        levels = self.levels[0]
        if len(levels) == 1:
            if self._most_rungs == 1:
                return reasons.one_rung(levels, self.min_resource, self.reduction_factor)
            note = f"The only bracket has one rung, at max_resource={self.max_resource}, so that no trial is stopped"
            return [f"{note} early. Use brackets with more rungs, or FIFO."]
        notes = reasons.not_at_min(levels, self.min_resource, self.reduction_factor)
        if num_trials is None:
            return notes
        small = [
            f"1 rung takes 1 and gets {size}" if rungs == 1 else f"{rungs} rungs take {need} and get {size}"
            for rungs, groups in zip(self.rung_counts, self._groups(num_trials), strict=True)
            for size in [min((size for _, size in groups), default=0)]
            for need in [self.reduction_factor ** (rungs - 1)]
            if size < need
        ]
        if not small:
            return notes
        what = "1 bracket has" if len(small) == 1 else f"{len(small)} brackets have"
        note = f"{what} too few trials to bring one to max_resource={self.max_resource}: {', '.join(small)}."
        return [*notes, f"{note} Use {self._enough()}, or other brackets."]

    def _groups(self, num_trials: int) -> list[list[tuple[int, int]]]:
        """Return for each bracket (how many groups of trials that compete with each other, their size)."""
        counts = self._allocation().split(num_trials)
        if self.variant != "synchronous":
            return [[(1, count)] for count in counts]
        return list(map(competing, counts, self.sizes))

    def _enough(self) -> str:
        """Return for which number of trials every bracket is expected to bring one to its end."""
        if self.variant != "shares":
            whole = sum(self.sizes)
            return f"num_trials as a multiple of {whole}" if self.variant == "synchronous" else f"num_trials >= {whole}"
        shares = Shares(self.rung_counts, self.reduction_factor)
        # An upper bound of how far a bracket may be behind its share, in trials.
        late = len(self.rung_counts).bit_length()
        needs = [self.reduction_factor ** (rungs - 1) + late for rungs in self.rung_counts]
        pairs = zip(needs, shares.weights, strict=True)
        return f"num_trials >= {max(-(-need * shares.total // weight) for need, weight in pairs)}"
