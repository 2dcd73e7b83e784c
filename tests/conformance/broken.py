"""Schedulers and searchers with one fault each: a conformance suite must find it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, ClassVar

from asyncsearch.ids import TrialId
from asyncsearch.schedulers import ASHA, Scheduler, SchedulerState
from asyncsearch.schedulers.base_scheduler import Promotion, RungForecast
from asyncsearch.searchers.base_searcher import Searcher, SearcherState
from asyncsearch.searchers.random import RandomSearch, RandomState
from asyncsearch.space import Space
from asyncsearch.trial import Params


def _passed(name: str) -> Any:
    """Return a method that asks the living half inside."""
    return lambda self, *arguments: getattr(self.inner, name)(*arguments)


class Outer(SchedulerState):
    """ASHA's living half, with room for a fault around it."""

    first_target, judge, next_promotion = _passed("first_target"), _passed("judge"), _passed("next_promotion")
    run_requested, reported, paused = _passed("run_requested"), _passed("reported"), _passed("paused")
    promoted, completed = _passed("promoted"), _passed("completed")
    stopped, failed = _passed("stopped"), _passed("failed")

    def __init__(self) -> None:
        self.inner = ASHA(max_resource=9).begin()
        self.told = 0

    def created(self, trial: TrialId, params: Params) -> None:
        self.told += 1
        self.inner.created(trial, params)

    def snapshot(self) -> dict[str, Any]:
        return {"inner": self.inner.snapshot(), "told": self.told}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.inner.restore(snapshot["inner"])
        self.told = snapshot["told"]


class ChangesWhenAsked(Outer):
    def next_promotion(self) -> Promotion | None:
        promotion: Promotion | None = super().next_promotion()
        if promotion is not None:
            self.promoted(promotion.trial, promotion.from_resource, promotion.to_resource)
        return promotion


class ForgetsAtRestore(Outer):
    def restore(self, snapshot: dict[str, Any]) -> None:
        self.inner.restore(snapshot["inner"])


class KeepsAsideWhatItDecidesBy(Outer):
    """What it decides by is not in its snapshot at all."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[int] = set()

    def paused(self, trial: TrialId, resource: int, score: float | None) -> None:
        super().paused(trial, resource, score)
        if score == 0.5:
            self.refused.add(trial)

    def next_promotion(self) -> Promotion | None:
        promotion = super().next_promotion()
        return None if promotion is None or promotion.trial in self.refused else promotion


class IsNotJSON(Outer):
    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"told": (self.told,)}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.inner.restore(snapshot["inner"])
        (self.told,) = snapshot["told"]


class ThrowsDice(Outer):
    # One after the other: true dice fall alike at times, and what is found first would be luck.
    falls: ClassVar = itertools.cycle([1, 3, 9])

    def first_target(self, trial: TrialId) -> int | None:
        return next(self.falls)


class PromotesTooFar(Outer):
    def next_promotion(self) -> Promotion | None:
        found = super().next_promotion()
        return found and Promotion(found.trial, found.from_resource, found.to_resource * 9, found.reason)


class PromotesDown(Outer):
    def next_promotion(self) -> Promotion | None:
        found = super().next_promotion()
        return found and Promotion(found.trial, found.from_resource, 1, found.reason)


class PromotesWithoutAWord(Outer):
    def next_promotion(self) -> Promotion | None:
        found = super().next_promotion()
        return found and Promotion(found.trial, found.from_resource, found.to_resource, "")


class PromotesWhomItDenied(Outer):
    def may_promote(self, trial: TrialId) -> bool:
        return False


class ForgetsItsFirst(Outer):
    def promotion_of(self, trial: TrialId) -> Promotion | None:
        return None


class StopsWithoutAWord(Outer):
    def judge(self, trial: TrialId, resource: int) -> str | None:
        return "" if trial == 2 else None


class TakesNaNForGood(Outer):
    def paused(self, trial: TrialId, resource: int, score: float | None) -> None:
        super().paused(trial, resource, -1.0 if score is None else score)


class BeginsNoMore(Outer):
    def may_create(self, trial: TrialId) -> bool:
        return trial < 5


class LooksThroughAll(Outer):
    def __init__(self) -> None:
        super().__init__()
        self.values: list[float] = []

    def paused(self, trial: TrialId, resource: int, score: float | None) -> None:
        super().paused(trial, resource, score)
        self.values.append(score or 0.0)
        self.told = sum(1 for value in self.values if value < 0.5)


class SharesBetweenStudies(Outer):
    seen: list[int] = []  # noqa: RUF012 -- the fault

    def created(self, trial: TrialId, params: Params) -> None:
        super().created(trial, params)
        self.seen.append(trial)

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"seen": list(self.seen)}


class Around(Scheduler):
    """A description whose living half has a fault."""

    def __init__(
        self, begin: Callable[[], SchedulerState], *, pauses: bool = True, lines: list[RungForecast] | None = None
    ) -> None:
        self._begin, self._pauses, self._lines = begin, pauses, lines

    @property
    def pauses(self) -> bool:
        return self._pauses

    @property
    def max_resource(self) -> int | None:
        return 9

    def begin(self, space: Space | None = None, seed: int = 0) -> SchedulerState:
        return self._begin()

    def describe(self) -> str:
        return "broken"

    def forecast(self, num_trials: int) -> list[RungForecast]:
        return self._lines or ASHA(max_resource=9).forecast(num_trials)


class Proposer(RandomState):
    """Random search, with room for a fault around it."""


class LeavesTheSpace(Proposer):
    def propose(self, number: int) -> Params:
        return super().propose(number) | {"lr": 2.0}


class ForgetsConstraints(Proposer):
    def propose(self, number: int) -> Params:
        params = super().propose(number)
        return params | {"model": {**params["model"], "layers": 3, "width": 64}}


class ForgetsInitialPoints(Proposer):
    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        self._initial = ()


class Counts(Proposer):
    """The i-th proposal is the i-th that was asked for, not number i."""

    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        self.asked = 0

    def propose(self, number: int) -> Params:
        self.asked += 1
        return super().propose(self.asked)


class GivesItselfAway(Proposer):
    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        self.kept: dict[int, Params] = {}

    def propose(self, number: int) -> Params:
        return self.kept.setdefault(number, super().propose(number))


class EndsEarly(Proposer):
    def length(self) -> int | None:
        return 5


class LearnsAndForgets(Proposer):
    """What it learns is in no snapshot."""

    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        self.shift = 0

    def ended(self, trial: TrialId, resource: int, score: float | None) -> None:
        self.shift += 1

    def propose(self, number: int) -> Params:
        return super().propose(number + self.shift)


class Proposing(Searcher):
    """A description whose living half has a fault."""

    def __init__(self, half: Callable[[Space, int], SearcherState]) -> None:
        self._half = half

    def begin(self, space: Space, seed: int) -> SearcherState:
        RandomSearch().begin(space, seed)
        return self._half(space, seed)

    def describe(self) -> str:
        return "broken"
