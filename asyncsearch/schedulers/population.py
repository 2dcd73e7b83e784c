"""A population: trials that compete at boundaries, where each waits before it trains on or takes over other weights.

Rule: nothing here looks at all members. A pause, a rank, a draw among the best and a promotion cost O(log n) each and a
shift in a list, which for 10,000 members takes a microsecond; boundaries that no member can reach any more are dropped,
and so are members that have ended.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from asyncsearch.errors import InternalError
from asyncsearch.ids import TrialId, trial_name
from asyncsearch.randomness import below
from asyncsearch.schedulers.order_statistics import RankedTrial

if TYPE_CHECKING:
    import numpy as np


class Rules(NamedTuple):
    """The rules that all populations of a search share."""

    interval: int
    """Units of training between boundaries."""
    max_resource: int
    quantile: Fraction
    """Share of those at a boundary that are its best, and that are its worst; above 0, at most 1/2."""
    is_synchronous: bool
    """Whether a boundary waits for all members that have not ended."""

    def after(self, resource: int) -> int:
        """Return the first boundary above a resource."""
        return min((resource // self.interval + 1) * self.interval, self.max_resource)

    def quota(self, size: int) -> int:
        """Return how many of ``size`` trials are the best, and how many the worst."""
        return size * self.quantile.numerator // self.quantile.denominator

    def is_worst(self, rank: int, size: int) -> bool:
        """Return whether a rank, from 1, among ``size`` trials is one of the worst."""
        return rank > size - self.quota(size)


class Boundary:
    """The members that reached one resource, or ended before it, by (score, trial id); None is worst."""

    __slots__ = ("_living", "_order", "_scores")

    def __init__(self) -> None:
        self._scores: dict[TrialId, float] = {}
        self._order: list[RankedTrial] = []
        self._living: list[RankedTrial] = []  # those of them that have a score and have not ended

    @property
    def size(self) -> int:
        """How many members reached it, or ended before it."""
        return len(self._order)

    def insert(self, trial: TrialId, score: float | None, *, is_alive: bool) -> None:
        """Count a trial."""
        # A NaN compares false with everything and would silently break the order of all others.
        number = math.inf if score is None or not math.isfinite(score) else score
        self._scores[trial] = number
        insort(self._order, (number, trial))
        if is_alive and number < math.inf:
            insort(self._living, (number, trial))

    def retire(self, trial: TrialId) -> None:
        """A trial ended: it keeps its rank, and no trial takes over its weights."""
        entry = (self._scores.get(trial, math.inf), trial)
        at = bisect_left(self._living, entry)
        if self._living[at : at + 1] == [entry]:
            del self._living[at]

    def rank(self, trial: TrialId) -> int:
        """Return the rank of a trial, from 1."""
        return 1 + bisect_left(self._order, (self._scores[trial], trial))

    def draw(self, best: int, source: np.random.Generator) -> TrialId | None:
        """Draw one of the first ``best`` trials that has a score and has not ended. None if there is none."""
        count = bisect_right(self._living, self._order[best - 1]) if best else 0
        return self._living[below(source, count)][1] if count else None

    def snapshot(self, resource: int) -> dict[str, Any]:
        """Return everything as JSON values, except which trials have ended."""
        return {
            "resource": resource,
            "trials": [trial for _, trial in self._order],
            "scores": [score if score < math.inf else None for score, _ in self._order],
        }


class Population:
    """Up to ``size`` trials, or as many as there will be if that is None. None trains on before all of them have begun.

    ``start`` is how many trials the populations before it have.
    """

    def __init__(self, rules: Rules, start: int, size: int | None) -> None:
        self.start = start
        self.size = size
        self.created = 0
        self._rules = rules
        self._boundaries: dict[int, Boundary] = {}
        self._queue: list[tuple[int, bool, TrialId]] = []
        # Members that may train on: the lowest boundary first and, if synchronous, those that take over weights.
        self._queued: dict[TrialId, bool] = {}  # the same, and whether they come last at their boundary
        self._waiting: dict[TrialId, None] = {}  # those that wait, and may not train on yet
        self._places: dict[TrialId, int] = {}  # of each member that has not ended: where it waits, or its next boundary
        self._counts: dict[int, int] = {}  # how many members have a place
        self._lowest = rules.interval  # no boundary below it is of use any more

    @property
    def is_full(self) -> bool:
        """Whether no further trial belongs to it."""
        return self.size is not None and self.created >= self.size

    @property
    def is_over(self) -> bool:
        """Whether all its members have ended and there will be no more."""
        return self.is_full and not self._places

    @property
    def candidate(self) -> TrialId | None:
        """The member that should train on next."""
        return self._queue[0][2] if self._queue else None

    def has(self, trial: TrialId) -> bool:
        """Return whether a trial is a member that has not ended."""
        return trial in self._places

    def is_waiting(self, trial: TrialId) -> bool:
        """Return whether a member waits at its place."""
        return trial in self._waiting or trial in self._queued

    def may_leave(self, trial: TrialId) -> bool:
        """Return whether a waiting member may train on now."""
        return trial in self._queued

    def may_give(self, trial: TrialId) -> bool:
        """Return whether a waiting member is among the best at its place, or will be if the others are worse."""
        assert self.size is not None, "none trains on before all have begun"
        return self.ranked(trial)[0] <= self._rules.quota(self.size)

    def place(self, trial: TrialId) -> int:
        """Return the boundary where a member waits, or its next one."""
        return self._places[trial]

    def ranked(self, trial: TrialId) -> tuple[int, int]:
        """Return the rank of a waiting member at its place, from 1, and how many are ranked there."""
        boundary = self._boundaries[self._places[trial]]
        return boundary.rank(trial), boundary.size

    def draw_best(self, trial: TrialId, source: np.random.Generator) -> TrialId | None:
        """Draw one of the best trials not ended at the boundary where a member waits. None if there is none."""
        boundary = self._boundaries[self._places[trial]]
        return boundary.draw(self._rules.quota(boundary.size), source)

    def create(self, trial: TrialId) -> None:
        """A member began."""
        self.created += 1
        self._settle(trial, self._rules.after(0))
        self._release()

    def close(self, size: int) -> None:
        """Accept no more than this many members."""
        self.size = size
        self._release()

    def pause(self, trial: TrialId, resource: int, score: float | None) -> None:
        """A member pauses at its place."""
        if self._places[trial] != resource:
            raise InternalError(
                f"{trial_name(trial)} is at {resource}, and its next boundary is {self._places[trial]}."
            )
        self._boundary(resource).insert(trial, score, is_alive=True)
        self._waiting[trial] = None
        self._release()

    def leave(self, trial: TrialId, to_resource: int) -> None:
        """A waiting member trains on, from its own or another checkpoint, to a boundary."""
        self._unsettle(trial)
        self._settle(trial, to_resource)
        self._forget()

    def end(self, trial: TrialId, score: float | None) -> None:
        """A member ends for good: between boundaries it counts at the next one, with this score."""
        place = self._places[trial]
        if not self.is_waiting(trial) and place < self._rules.max_resource:
            self._boundary(place).insert(trial, score, is_alive=False)
        for boundary in self._boundaries.values():
            boundary.retire(trial)
        self._unsettle(trial)
        self._forget()
        self._release()

    def _boundary(self, resource: int) -> Boundary:
        return self._boundaries.setdefault(resource, Boundary())

    def _settle(self, trial: TrialId, place: int) -> None:
        self._places[trial] = place
        self._counts[place] = self._counts.get(place, 0) + 1

    def _unsettle(self, trial: TrialId) -> None:
        place = self._places.pop(trial)
        self._waiting.pop(trial, None)
        is_last = self._queued.pop(trial, None)
        if is_last is not None:
            del self._queue[bisect_left(self._queue, (place, is_last, trial))]
        self._counts[place] -= 1
        if not self._counts[place]:
            del self._counts[place]

    def _release(self) -> None:
        """Let waiting members train on, if all members have begun and, if synchronous, reached the boundary."""
        if not self.is_full or (self._rules.is_synchronous and len(self._waiting) < len(self._places)):
            return
        for trial in self._waiting:
            # Those that take over weights go first, while their donors are still at the boundary.
            is_last = self._rules.is_synchronous and not self._rules.is_worst(*self.ranked(trial))
            self._queued[trial] = is_last
            insort(self._queue, (self._places[trial], is_last, trial))
        self._waiting.clear()

    def _forget(self) -> None:
        """Drop the boundaries that no member will reach any more."""
        while self.is_full and self._counts and self._lowest < self._rules.max_resource:
            if self._counts.get(self._lowest):
                return
            self._boundaries.pop(self._lowest, None)
            self._lowest = self._rules.after(self._lowest)

    def snapshot(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "start": self.start,
            "size": self.size,
            "created": self.created,
            "trials": list(self._places),
            "places": list(self._places.values()),
            "held": list(self._waiting),
            "queue": [list(entry) for entry in self._queue],
            "boundaries": [boundary.snapshot(resource) for resource, boundary in sorted(self._boundaries.items())],
            "lowest": self._lowest,
        }

    @classmethod
    def restored(cls, rules: Rules, snapshot: dict[str, Any]) -> Population:
        """Return the population that ``snapshot`` described."""
        population = cls(rules, snapshot["start"], snapshot["size"])
        population.created = snapshot["created"]
        for trial, place in zip(snapshot["trials"], snapshot["places"], strict=True):
            population._settle(trial, place)
        population._waiting = dict.fromkeys(snapshot["held"])
        population._queue = [(place, last, trial) for place, last, trial in snapshot["queue"]]
        population._queued = {trial: last for _, last, trial in population._queue}
        for entry in snapshot["boundaries"]:
            boundary = population._boundary(entry["resource"])
            for trial, score in zip(entry["trials"], entry["scores"], strict=True):
                boundary.insert(trial, score, is_alive=trial in population._places)
        population._lowest = snapshot["lowest"]
        return population
