"""Brackets of ASHA side by side: the living half of asynchronous Hyperband."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asyncsearch.ids import TrialId
from asyncsearch.schedulers.asynchronous_bracket import AsynchronousBracket
from asyncsearch.schedulers.base_scheduler import Promotion, SchedulerState
from asyncsearch.schedulers.bracket_allocation import BracketAllocation
from asyncsearch.schedulers.progress import Progress
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
        self._units = [0] * len(levels)
        """Units of training that each bracket was given: by new trials and by promotions."""

    def first_target(self, trial: TrialId) -> int:
        number = self._numbers[trial] if trial < len(self._numbers) else self._next_number
        return self._brackets[number].levels[0]

    def next_promotion(self) -> Promotion | None:
        ready = [(units, number) for number, units in enumerate(self._units) if self._brackets[number].ready >= 0]
        return self._brackets[min(ready)[1]].next_promotion() if ready else None

    def position(self, trial: TrialId) -> str:
        if not self._progress.knows(trial):
            return ""
        number = self._numbers[trial]
        return f"bracket {number}: {self._brackets[number].position(trial)}"

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
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._progress = Progress.restored(snapshot["progress"])
        self._numbers = bytearray(snapshot["homes"])
        self._counts = [self._numbers.count(number) for number in range(len(self._brackets))]
        self._next_number = self._allocation.next_bracket(self._counts)
        self._units = list(snapshot["units"])
        for bracket, rungs in zip(self._brackets, snapshot["races"], strict=True):
            bracket.restore_rungs(self._progress, rungs)
