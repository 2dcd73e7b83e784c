"""The schedulers of a program of Ray Tune, as its program names them, and the rules of this project behind them.

``AsyncHyperBandScheduler`` is ASHA's stopping variant: a trial is judged once at each rung that it passes. The rungs
are Ray's, grace_period · reduction_factorᵏ below max_t; who goes on is decided by exact ranks, by the rule of
``schedulers.asha_stopping``.

Resource: the number of reports where ``time_attr`` is "training_iteration". Any other attribute may have fractions,
begin at 0 and come twice, so that a trial's resource is 1 + 1000 times its value.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from asyncsearch.arguments import above_zero, not_negative, positive
from asyncsearch.errors import ResourceError, UsageError
from asyncsearch.ids import TrialId
from asyncsearch.randomness import generator
from asyncsearch.schedulers.asha_stopping import StoppingState
from asyncsearch.schedulers.base_scheduler import Promotion, RungForecast, Scheduler, SchedulerState
from asyncsearch.schedulers.fifo import FIFO
from asyncsearch.schedulers.median import MedianStopping
from asyncsearch.schedulers.rungs import Rung
from asyncsearch.space import Space
from asyncsearch.trial import Params

ITERATION = "training_iteration"
PARTS = 1000
"""Into so many parts a unit of a ``time_attr`` is divided that may have fractions."""


def resource_at(time_attr: str, time: float) -> int:
    """Return the resource of a value of ``time_attr``."""
    return max(1, int(time)) if time_attr == ITERATION else max(0, math.floor(time * PARTS)) + 1


def rungs_of(
    grace_period: float, max_t: float, reduction_factor: float, bracket: int, time_attr: str
) -> tuple[int, ...]:
    """Return the resources of a bracket's rungs, lowest first; the last one is the end."""
    count = int(math.log(max_t / grace_period) / math.log(reduction_factor) - bracket + 1)
    times = [grace_period * reduction_factor ** (k + bracket) for k in range(count)]
    levels = {resource_at(time_attr, math.ceil(at) if time_attr == ITERATION else at) for at in times if at < max_t}
    return (*sorted(levels), resource_at(time_attr, math.ceil(max_t) if time_attr == ITERATION else max_t))


class RayRungs(StoppingState):
    """One bracket, whose reduction factor may have a fraction."""

    def _quota(self, rung: Rung) -> int:
        return max(math.floor(rung.size / self._reduction_factor), 1)


@dataclass(frozen=True, kw_only=True)
class RayASHA(Scheduler):
    """The rule behind ``AsyncHyperBandScheduler``; its arguments are Ray's."""

    max_t: float = 100
    grace_period: float = 1
    reduction_factor: float = 4
    brackets: int = 1
    time_attr: str = ITERATION
    stop_last_trials: bool = True

    @property
    def pauses(self) -> bool:
        return False

    @property
    def max_resource(self) -> int | None:
        return self.levels(0)[-1] if self.stop_last_trials else None

    def levels(self, bracket: int) -> tuple[int, ...]:
        """Return the resources of a bracket's rungs, lowest first."""
        return rungs_of(self.grace_period, self.max_t, self.reduction_factor, bracket, self.time_attr)

    def begin(self, space: Space | None = None, seed: int = 0) -> RayASHAState:
        return RayASHAState(self, seed)

    def describe(self) -> str:
        rungs = ", ".join(f"{self.grace_period * self.reduction_factor**k:g}" for k in range(len(self.levels(0)) - 1))
        unit = "iterations" if self.time_attr == ITERATION else self.time_attr
        return f"ASHA as in Ray Tune: trials are judged at {rungs or 'no'} {unit}, and end at {self.max_t:g}"

    def forecast(self, num_trials: int) -> list[RungForecast]:
        lines, start, left = [], 0, num_trials
        for level in self.levels(0):
            lines.append(RungForecast(start, level, left))
            start, left = level, max(1, math.floor(left / self.reduction_factor))
        return lines


class RayASHAState(SchedulerState):
    """The brackets of one study; each trial belongs to one."""

    judges = True

    def __init__(self, scheduler: RayASHA, seed: int) -> None:
        self._scheduler, self._seed = scheduler, seed
        factor: Any = scheduler.reduction_factor
        self._brackets = [RayRungs(scheduler.levels(number), factor) for number in range(scheduler.brackets)]
        self._chances = [math.exp(len(scheduler.levels(number)) - 1) for number in range(scheduler.brackets)]
        self._of: dict[TrialId, int] = {}

    def _bracket(self, trial: TrialId) -> RayRungs:
        return self._brackets[self._number(trial)]

    def _number(self, trial: TrialId) -> int:
        """Return the bracket of a trial: drawn in proportion to the exponential of the number of rungs, as in Ray."""
        if len(self._brackets) == 1:
            return 0
        if trial not in self._of:
            share = generator(self._seed, "ray.brackets", trial).random() * sum(self._chances)
            passed = np.cumsum(self._chances)
            self._of[trial] = min(int(np.searchsorted(passed, share, side="right")), len(self._brackets) - 1)
        return self._of[trial]

    def first_target(self, trial: TrialId) -> int | None:
        return self._scheduler.max_resource

    def judge(self, trial: TrialId, resource: int) -> str | None:
        return self._bracket(trial).judge(trial, resource)

    def judged_next(self, trial: TrialId, resource: int) -> int | None:
        return self._bracket(trial).judged_next(trial, resource)

    def next_promotion(self) -> Promotion | None:
        return None

    def position(self, trial: TrialId) -> str:
        return self._bracket(trial).position(trial)

    def created(self, trial: TrialId, params: Params) -> None:
        self._bracket(trial).created(trial, params)

    def reported(self, trial: TrialId, resource: int, score: float | None) -> None:
        self._bracket(trial).reported(trial, resource, score)

    def stopped(self, trial: TrialId, resource: int, score: float | None) -> None:
        self._bracket(trial).stopped(trial, resource, score)

    def ended(self, trial: TrialId, resource: int, score: float | None) -> None:
        self._bracket(trial).ended(trial, resource, score)

    def snapshot(self) -> dict[str, Any]:
        return {"brackets": [bracket.snapshot() for bracket in self._brackets]}

    def restore(self, snapshot: dict[str, Any]) -> None:
        for bracket, its in zip(self._brackets, snapshot["brackets"], strict=True):
            bracket.restore(its)


@dataclass(kw_only=True)
class TuneScheduler:
    """A scheduler as a program names it: Ray's arguments, of which ``rule`` makes ours."""

    metric: str | None = None
    mode: str | None = None
    time_attr: str = ITERATION

    name = "FIFOScheduler"
    compares = True
    """Whether it needs a metric."""
    judges = True
    """Whether its rule counts in ``time_attr``."""

    def rule(self) -> Scheduler:
        """Return the scheduler of this project."""
        raise NotImplementedError

    @property
    def needed_reports(self) -> float:
        """How far a trial must come before it is judged first, in ``time_attr``."""
        return 0

    @property
    def end(self) -> float | None:
        """Where a trial is complete, in ``time_attr``. None means where its function returns."""
        most: float | None = getattr(self, "max_t", None)
        return most

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Take metric and mode from the tuner, unless they were given here."""
        self.metric, self.mode = self.metric or metric, self.mode or mode
        return True


@dataclass
class FIFOScheduler(TuneScheduler):
    """Every trial trains until its function returns."""

    compares = judges = False

    def rule(self) -> Scheduler:
        return FIFO()


@dataclass
class AsyncHyperBandScheduler(TuneScheduler):
    """ASHA: at each rung one of ``reduction_factor`` trials goes on."""

    time_attr: str = ITERATION
    metric: str | None = None
    mode: str | None = None
    max_t: float = 100
    grace_period: float = 1
    reduction_factor: float = 4
    brackets: int = 1
    stop_last_trials: bool = True

    name = "ASHAScheduler"

    def __post_init__(self) -> None:
        require_mode(self.mode, self.name)
        for argument in ("max_t", "grace_period"):
            with named_for(self.name):
                above_zero(argument, getattr(self, argument))
        if self.grace_period > self.max_t:
            raise ResourceError(
                f"{self.name}(grace_period={self.grace_period}, max_t={self.max_t}): grace_period must not "
                "be above max_t,"
                " where each trial ends."
            )
        with named_for(self.name):
            positive("brackets", self.brackets, 1)
            if not above_zero("reduction_factor", self.reduction_factor) > 1:
                raise ResourceError(f"reduction_factor={self.reduction_factor!r} must be above 1, e.g. 4.")

    @property
    def needed_reports(self) -> float:
        return self.grace_period

    def rule(self) -> Scheduler:
        return RayASHA(
            max_t=self.max_t,
            grace_period=self.grace_period,
            reduction_factor=self.reduction_factor,
            brackets=self.brackets,
            time_attr=self.time_attr,
            stop_last_trials=self.stop_last_trials,
        )


@dataclass
class HyperBandScheduler(TuneScheduler):
    """HyperBand, whose trials are judged as they pass a rung: they do not wait there for those of their bracket."""

    time_attr: str = ITERATION
    metric: str | None = None
    mode: str | None = None
    max_t: int = 81
    reduction_factor: float = 3
    stop_last_trials: bool = True

    name = "HyperBandScheduler"

    def __post_init__(self) -> None:
        AsyncHyperBandScheduler(max_t=self.max_t, reduction_factor=self.reduction_factor, mode=self.mode)

    @property
    def needed_reports(self) -> float:
        return 1

    def rule(self) -> Scheduler:
        brackets = int(math.log(self.max_t) / math.log(self.reduction_factor) + 1e-9) + 1
        return RayASHA(
            max_t=self.max_t,
            reduction_factor=self.reduction_factor,
            brackets=brackets,
            time_attr=self.time_attr,
            stop_last_trials=self.stop_last_trials,
        )


@dataclass
class MedianStoppingRule(TuneScheduler):
    """A trial stops whose best value is worse than the median of the averages of the others."""

    time_attr: str = "time_total_s"
    metric: str | None = None
    mode: str | None = None
    grace_period: float = 60.0
    min_samples_required: int = 3
    min_time_slice: int = 0
    hard_stop: bool = True

    name = "MedianStoppingRule"

    def __post_init__(self) -> None:
        require_mode(self.mode, self.name)
        with named_for(self.name):
            not_negative("grace_period", self.grace_period)
            positive("min_samples_required", self.min_samples_required, 3)
        if not self.hard_stop or self.min_time_slice:
            raise UsageError(
                "MedianStoppingRule(hard_stop=False, min_time_slice=...) pauses trials, and here they are "
                "stopped: leave "
                "both out."
            )

    @property
    def needed_reports(self) -> float:
        return self.grace_period

    def rule(self) -> Scheduler:
        start = resource_at(self.time_attr, self.grace_period)
        unit = 1 if self.time_attr == ITERATION else PARTS
        return MedianStopping(min_resource=start, min_trials=self.min_samples_required, interval=unit)


@contextlib.contextmanager
def named_for(who: str) -> Iterator[None]:
    """Say in an error whose argument breaks its rule: a program has several objects with arguments of one name."""
    try:
        yield
    except UsageError as error:
        raise ResourceError(f"{who}: {error}") from None


def require_mode(mode: object, who: str) -> None:
    """Refuse what is no mode."""
    if mode not in (None, "min", "max"):
        raise UsageError(f"{who}(mode={mode!r}): write mode='min' or mode='max'.")


def create_scheduler(scheduler: str, **options: Any) -> TuneScheduler:
    """Return the scheduler of a name, as ``tune.run(scheduler="asynchyperband")``."""
    kind = _BY_NAME.get(scheduler.lower().replace("_", ""))
    if kind is None:
        raise UsageError(f"scheduler={scheduler!r} is not known here; these are: {', '.join(_BY_NAME)}.")
    return kind(**options)


_BY_NAME: dict[str, type[TuneScheduler]] = {
    "fifo": FIFOScheduler,
    "asynchyperband": AsyncHyperBandScheduler,
    "hyperband": HyperBandScheduler,
    "medianstopping": MedianStoppingRule,
    "medianstoppingrule": MedianStoppingRule,
}
