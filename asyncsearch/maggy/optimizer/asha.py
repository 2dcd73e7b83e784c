"""Maggy's ASHA: a promoted configuration is a new trial, which trains from its beginning with a larger budget.

Functions of Maggy save no checkpoints, so nothing can go on from one; ``asyncsearch.ASHA`` is for those that do.

    when a worker is free:
        if a trial has begun with the highest budget: no more trials
        for each budget below that, from the highest:
            if one of its best ⌊n/η⌋ ended trials was not promoted yet: begin the best of these with η times the budget
        else begin a new configuration with the lowest budget

Rule 1: pure, as every searcher.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.ids import TrialId
from asyncsearch.randomness import generator
from asyncsearch.searchers.base_searcher import Searcher, SearcherState
from asyncsearch.space import Space, choice
from asyncsearch.trial import Params

BUDGET = "budget"
_PROMOTED = "promoted"
_PURPOSE = "maggy.asha"
_TIMES = 4


@dataclass(frozen=True, kw_only=True)
class AshaSearch(Searcher):
    """Proposes configurations with budgets.

    Raises:
        UsageError: the numbers do not fit together.
    """

    reduction_factor: int = 2
    resource_min: int = 1
    resource_max: int = 4
    num_trials: int = 8
    """No trial begins after four times as many, whatever became of them: where all fail, none is ever promoted."""

    def __post_init__(self) -> None:
        given = (self.reduction_factor, self.resource_min, self.resource_max)
        if any(type(one) is not int for one in given) or given[0] < 2 or not 1 <= given[1] < given[2]:
            raise UsageError(
                f"Asha{given}: write integers, reduction_factor from 2 and resource_min below resource_max, "
                "as in Asha(3, 1, 9)."
            )

    @property
    def budgets(self) -> tuple[int, ...]:
        """The budgets, lowest first."""
        found = [self.resource_min]
        while found[-1] * self.reduction_factor <= self.resource_max:
            found.append(found[-1] * self.reduction_factor)
        return tuple(found)

    def extended(self, space: Space) -> Space:
        if BUDGET in space.names:
            raise UsageError(f"asha gives the function {BUDGET!r} itself: leave it out of the search space.")
        return space.with_parameters({BUDGET: choice(*self.budgets)})

    def begin(self, space: Space, seed: int) -> AshaState:
        return AshaState(self, space, seed)

    def describe(self) -> str:
        return f"Asha({self.reduction_factor}, {self.resource_min}, {self.resource_max})"


class AshaState(SearcherState):
    """The trials of each budget, and how they ended."""

    def __init__(self, search: AshaSearch, space: Space, seed: int) -> None:
        self._eta, self._budgets, self._most = search.reduction_factor, search.budgets, _TIMES * search.num_trials
        self._space, self._seed = space, seed
        self._params: dict[TrialId, Params] = {}
        self._scores: list[list[tuple[float, TrialId]]] = [[] for _ in self._budgets]
        """Of the ended trials of each budget; a trial without a result is infinite."""
        self._promoted: set[TrialId] = set()

    def propose(self, number: int) -> Params | None:
        if number >= self._most or any(params[BUDGET] == self._budgets[-1] for params in self._params.values()):
            return None
        parent = self._promotable()
        if parent is not None:
            params = self._params[parent]
            return {**params, BUDGET: params[BUDGET] * self._eta}
        drawn = self._space.sample(generator(self._seed, _PURPOSE, number))
        return {**drawn, BUDGET: self._budgets[0]}

    def notes(self, number: int) -> dict[str, Any]:
        parent = self._promotable()
        return {} if parent is None else {_PROMOTED: parent}

    def length(self) -> int:
        return self._most

    def _promotable(self) -> TrialId | None:
        for ended in reversed(self._scores[:-1]):
            best = [trial for score, trial in sorted(ended)[: len(ended) // self._eta] if math.isfinite(score)]
            waiting = [trial for trial in best if trial not in self._promoted]
            if waiting:
                return waiting[0]
        return None

    def created(self, trial: TrialId, params: Params) -> None:
        self._params[trial] = params

    def noted(self, trial: TrialId, notes: dict[str, Any]) -> None:
        self._promoted.add(TrialId(notes[_PROMOTED]))

    def ended(self, trial: TrialId, resource: int, score: float | None) -> None:
        rung = self._budgets.index(self._params[trial][BUDGET])
        self._scores[rung].append((math.inf if score is None else score, trial))

    def snapshot(self) -> dict[str, Any]:
        return {
            "params": [[trial, params] for trial, params in self._params.items()],
            "scores": [[[None if math.isinf(s) else s, trial] for s, trial in rung] for rung in self._scores],
            "promoted": sorted(self._promoted),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._params = {TrialId(trial): params for trial, params in snapshot["params"]}
        self._scores = [
            [(math.inf if score is None else score, TrialId(trial)) for score, trial in rung]
            for rung in snapshot["scores"]
        ]
        self._promoted = {TrialId(trial) for trial in snapshot["promoted"]}
