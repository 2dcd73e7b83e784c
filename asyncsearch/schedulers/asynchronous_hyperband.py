"""Brackets of ASHA side by side: the living half of asynchronous Hyperband."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from asyncsearch.ids import TrialId
from asyncsearch.schedulers.asynchronous_bracket import AsynchronousBracket
from asyncsearch.schedulers.base_scheduler import Promotion, SchedulerState
from asyncsearch.schedulers.bracket_allocation import BracketAllocation
from asyncsearch.schedulers.progress import Progress
from asyncsearch.trial import Params


class AsynchronousHyperbandState(SchedulerState):
    """A race for each bracket, and which trial runs in which.

    A bracket is one race for the whole search: a further round widens its rungs, as more trials do in ASHA. Of several
    brackets with a trial to promote, the one that was given the fewest units of training comes first: all brackets have
    the same share of the budget. In a tie that is the one with more rungs.

    Args:
        levels: Resources of the rungs of each bracket; at most 255 brackets.
        reduction_factor: η.
        allotment: Which bracket a new trial belongs to.
    """

    judges = False

    def __init__(self, levels: Sequence[tuple[int, ...]], reduction_factor: int, allotment: BracketAllocation) -> None:
        self._allotment = allotment
        self._progress = Progress()
        self._races = [AsynchronousBracket(each, reduction_factor, self._progress) for each in levels]
        self._homes = bytearray()
        """Bracket of each trial, by its id: these count from 0 in the order of creation."""
        self._counts = [0] * len(levels)
        self._next_home = allotment.next_bracket(self._counts)
        """Bracket of the trial that is created next."""
        self._units = [0] * len(levels)
        """Units of training that each bracket was given: by new trials and by promotions."""

    def first_target(self, trial: TrialId) -> int:
        home = self._homes[trial] if trial < len(self._homes) else self._next_home
        return self._races[home].ladder.levels[0]

    def next_promotion(self) -> Promotion | None:
        first, units = None, math.inf
        for race, given in zip(self._races, self._units, strict=True):
            if race.ready >= 0 and given < units:
                first, units = race, given
        return None if first is None else first.next_promotion()

    def standing(self, trial: TrialId) -> str:
        if not self._progress.knows(trial):
            return ""
        home = self._homes[trial]
        return f"bracket {home}: {self._races[home].ladder.standing(trial)}"

    def created(self, trial: TrialId, params: Params) -> None:
        home = self._next_home
        self._homes.append(home)
        self._progress.begin(trial)
        self._counts[home] += 1
        self._units[home] += self._races[home].ladder.levels[0]
        self._next_home = self._allotment.next_bracket(self._counts)

    def paused(self, trial: TrialId, resource: int, score: float | None) -> None:
        self._race_of(trial).arrive(trial, resource, score)

    def promoted(self, trial: TrialId, from_resource: int, to_resource: int) -> None:
        self._race_of(trial).promote(trial, from_resource)
        self._units[self._homes[trial]] += to_resource - from_resource

    def stopped(self, trial: TrialId, resource: int, score: float | None) -> None:
        self.ended(trial, resource, None)

    def ended(self, trial: TrialId, resource: int, score: float | None) -> None:
        self._race_of(trial).end(trial, score)

    def _race_of(self, trial: TrialId) -> AsynchronousBracket:
        return self._races[self._homes[trial]]

    def snapshot(self) -> dict[str, Any]:
        return {
            "progress": self._progress.snapshot(),
            "homes": list(self._homes),
            "races": [race.snapshot() for race in self._races],
            "units": list(self._units),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._progress = Progress.restored(snapshot["progress"])
        self._homes = bytearray(snapshot["homes"])
        self._counts = [self._homes.count(home) for home in range(len(self._races))]
        self._next_home = self._allotment.next_bracket(self._counts)
        self._units = list(snapshot["units"])
        for race, rungs in zip(self._races, snapshot["races"], strict=True):
            race.restore(self._progress, rungs)
