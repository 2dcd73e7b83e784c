"""Median stopping: a trial that is worse than the median of the others is stopped.

Golovin et al., "Google Vizier: A Service for Black-Box Optimization", KDD 2017, section 3.2::

    stop a trial at resource t if its best value up to t is strictly worse than the median of the
    running averages, over the reports up to t, of the other trials that reached t

The rule is aligned on resource: trials are compared where each had trained for t units, however many reports they made.
Of a finished trial one number is kept for each point that it passed: where points double, about 8 log₂(R/r) bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import msgspec

from asyncsearch.errors import ResourceError
from asyncsearch.ids import TrialId
from asyncsearch.schedulers import reasons
from asyncsearch.schedulers.base_scheduler import Promotion, RungForecast, Scheduler, SchedulerState
from asyncsearch.schedulers.order_statistics import RunningMedian
from asyncsearch.schedulers.rungs import check_whole
from asyncsearch.space import Space
from asyncsearch.trial import Params


@dataclass(frozen=True, kw_only=True, slots=True)
class MedianStopping(Scheduler):
    """Stop a trial whose best value is worse than the median of the averages of the others. Never pauses one.

    Args:
        max_resource: Resource at which a trial is complete. None means when its function returns.
        min_resource: A grace period: no trial is judged below it.
        min_trials: How many other trials must have reached a resource before a trial is judged there.
        interval: Trials are judged at ``min_resource`` and at every ``interval`` units after it; 1 is the paper's rule.
            None: each time that they have trained twice as long, which bounds memory and the number of stops.

    Raises:
        ResourceError: values that are not positive integers, or that do not fit together.
    """

    max_resource: int | None = None
    min_resource: int = 1
    min_trials: int = 5
    interval: int | None = None

    def __post_init__(self) -> None:
        check_whole("min_resource", self.min_resource, 1)
        check_whole("min_trials", self.min_trials, 1)
        if self.interval is not None:
            check_whole("interval", self.interval, 1)
        if self.max_resource is None:
            return
        check_whole("max_resource", self.max_resource, 1)
        if self.min_resource > self.max_resource:
            raise ResourceError(
                f"min_resource={self.min_resource} is above max_resource={self.max_resource}: no trial would ever be "
                f"judged. Use min_resource < {self.max_resource} or max_resource > {self.min_resource}."
            )

    @property
    def pauses(self) -> bool:
        return False

    def begin(self, space: Space | None = None, seed: int = 0) -> MedianState:
        return MedianState(self)

    def describe(self) -> str:
        points = ", ".join(str(self.point(index)) for index in range(3))
        return f"{reasons.call(self, 'min_resource', 'min_trials')}: trials are judged at {points}, ..."

    def forecast(self, num_trials: int) -> list[RungForecast]:
        return [RungForecast(0, self.max_resource, num_trials)]

    def warnings(self, num_trials: int | None) -> list[str]:
        notes = []
        if self.max_resource is not None and self.min_resource >= self.max_resource:
            notes.append(
                f"No trial is ever judged: min_resource is max_resource={self.max_resource}, where trials are complete."
                " Use a lower min_resource."
            )
        if num_trials is not None and num_trials <= self.min_trials:
            trials = "is 1 trial" if num_trials == 1 else f"are {num_trials} trials"
            notes.append(
                f"No trial is ever stopped: a trial is compared with {self.min_trials} others or more, and there "
                f"{trials}. Use num_trials > {self.min_trials} or a smaller min_trials."
            )
        return notes

    def index(self, resource: int) -> int:
        """Return the index of the last point at or before a resource; -1 if there is none."""
        if resource < self.min_resource:
            return -1
        if self.interval is not None:
            return (resource - self.min_resource) // self.interval
        return (resource // self.min_resource).bit_length() - 1

    def point(self, index: int) -> int:
        """Return the resource of a point where trials are judged, counted from 0."""
        if self.interval is not None:
            return self.min_resource + index * self.interval
        return self.min_resource << index


class Comparison(msgspec.Struct, frozen=True):
    """A trial at the last point that it passed, beside those that had passed it before."""

    resource: int
    """Where it reported, at the point or after it."""
    point: int
    others: int
    is_worse: bool
    """Whether it is to be stopped."""
    has_value: bool
    """Whether its last report at or before the point was finite."""


class RunningAverage(msgspec.Struct):
    """The reports of a trial that has not ended, as far as the rule needs them."""

    average: float = 0.0
    """Mean of its finite reports."""
    count: int = 0
    """How many there are."""
    best: float | None = None
    is_finite: bool | None = None
    """Whether its last report was. None if there is none."""
    index: int = -1
    """The last point that it passed."""
    comparison: Comparison | None = None

    def add(self, score: float | None) -> None:
        """Add a report; one that is not finite leaves average and best as they are."""
        self.is_finite = score is not None and math.isfinite(score)
        if score is None or not self.is_finite:
            return
        self.count += 1
        # Not sum / count: the average of equal numbers must be that number, or rounding would decide ties.
        step = (score - self.average) / self.count
        self.average += step if math.isfinite(step) else score / self.count - self.average / self.count
        self.best = score if self.best is None else min(self.best, score)


class MedianState(SchedulerState):
    """The averages of all trials at each point, and the running averages of those that have not ended."""

    def __init__(self, scheduler: MedianStopping) -> None:
        self._scheduler = scheduler
        self._medians: dict[int, RunningMedian] = {}
        """Of the averages at a point, by its resource; the worst is infinite."""
        self._averages: dict[TrialId, RunningAverage] = {}

    def first_target(self, trial: TrialId) -> int | None:
        return self._scheduler.max_resource

    def judge(self, trial: TrialId, resource: int) -> str | None:
        running = self._averages.get(trial)
        comparison = None if running is None else running.comparison
        if comparison is None or comparison.resource != resource or not comparison.is_worse:
            return None
        point, others = comparison.point, comparison.others
        if not comparison.has_value:
            where = "there" if point == resource else f"at {point}"
            return (
                f"stopped at resource {resource}: its last value {where} is not finite, which counts as worse than the "
                f"median of {_trials(others)}"
            )
        where = "there" if point == resource else f"at {point}"
        return (
            f"stopped at resource {resource}: its best value is worse than the median of the averages of "
            f"{_trials(others)} {where}"
        )

    def judged_next(self, trial: TrialId, resource: int) -> int | None:
        place, end = self._scheduler.point(self._scheduler.index(resource) + 1), self._scheduler.max_resource
        return place if end is None or place < end else None

    def next_promotion(self) -> Promotion | None:
        return None

    def position(self, trial: TrialId) -> str:
        running = self._averages.get(trial)
        if running is None:
            return ""
        if running.comparison is None:
            return f"not compared with other trials before resource {self._scheduler.point(running.index + 1)}"
        point, others = running.comparison.point, running.comparison.others
        return f"last compared at resource {point}, which {_trials(others)} had reached before"

    def created(self, trial: TrialId, params: Params) -> None:
        self._averages.setdefault(trial, RunningAverage())

    def reported(self, trial: TrialId, resource: int, score: float | None) -> None:
        # A report that was in flight when the trial was stopped must not count.
        running = self._averages.get(trial)
        if running is None:
            return
        index = self._scheduler.index(resource)
        if index <= running.index:
            running.add(score)
            return
        running.index, point = index, self._scheduler.point(index)
        # Of skipped points the last one counts, without the report beyond it, unless that is its first.
        if resource == point or running.is_finite is None:
            running.add(score)
            self._compare(running, resource, point)
        else:
            self._compare(running, resource, point)
            running.add(score)

    def _compare(self, running: RunningAverage, resource: int, point: int) -> None:
        if point == self._scheduler.max_resource:
            return
        median = self._medians.setdefault(point, RunningMedian())
        others = len(median)
        best = running.best if running.is_finite and running.best is not None else math.inf
        is_judged = others >= self._scheduler.min_trials and resource != self._scheduler.max_resource
        is_worse = is_judged and best > median.median()
        median.add(running.average if running.is_finite else math.inf)
        running.comparison = Comparison(resource, point, others, is_worse, bool(running.is_finite))

    def ended(self, trial: TrialId, resource: int, score: float | None) -> None:
        self._averages.pop(trial, None)

    def snapshot(self) -> dict[str, Any]:
        medians = [
            {"point": point, "values": [value if math.isfinite(value) else None for value in median.numbers()]}
            for point, median in sorted(self._medians.items())
        ]
        averages = [
            {"trial": trial, **msgspec.to_builtins(running)} for trial, running in sorted(self._averages.items())
        ]
        return {"averages": medians, "courses": averages}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._medians = {
            at["point"]: RunningMedian(math.inf if value is None else value for value in at["values"])
            for at in snapshot["averages"]
        }
        self._averages = {}
        for running in snapshot["courses"]:
            facts = {**running, "comparison": running["comparison"] and Comparison(**running["comparison"])}
            trial = TrialId(facts.pop("trial"))
            self._averages[trial] = RunningAverage(**facts)


def _trials(others: int) -> str:
    return "1 other trial" if others == 1 else f"{others} other trials"
