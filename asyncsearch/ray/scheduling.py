"""The schedulers of a program of Ray Tune, as its program names them; each makes a rule of this project."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from asyncsearch.arguments import above_zero, not_negative, positive
from asyncsearch.errors import ResourceError, UsageError
from asyncsearch.ray.milestones import ITERATION, PARTS, RayASHA, RayHyperBand, level_at
from asyncsearch.ray.stopping import RayMedian
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.schedulers.fifo import FIFO


@dataclass(kw_only=True)
class TuneScheduler:
    """A scheduler as a program names it: Ray's arguments, of which ``rule`` makes ours."""

    # In Ray's order, which those that are derived keep: programs give them by their places.
    time_attr: str = ITERATION
    metric: str | None = None
    mode: str | None = None

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
        return RayHyperBand(
            max_t=self.max_t,
            reduction_factor=self.reduction_factor,
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
        start = level_at(self.time_attr, self.grace_period)
        unit = 1 if self.time_attr == ITERATION else PARTS
        return RayMedian(min_resource=start, min_trials=self.min_samples_required, interval=unit)


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
