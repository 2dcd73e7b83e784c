"""An attempt is the life of one lane of a lease: its facts, and the meaning of its end for its trials. Pure."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Set
from typing import NamedTuple

import msgspec

from asyncsearch.arguments import metric_in_call
from asyncsearch.events import (
    MEMORY_KINDS,
    CheckpointCommitted,
    CheckpointFailed,
    Event,
    Outcome,
    Reported,
    TrainingEnded,
)
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, TrialId
from asyncsearch.plan.base_plan import Batch, PlannedStage
from asyncsearch.trial import Trial, TrialState, is_end

RETURNED_BESIDE = "; its function returned"
"""Begins the part of the reason of a trial's end that names a value which was returned beside reports."""
_SHOWN, _NAME_CHARS = 10, 100
"""How many of the returned values a reason names, and how much of their names."""
NEVER = "and never reported"
UNSAVED = "without a checkpoint. Give save="
WITHOUT = " without a checkpoint, since others are better and it does not go on in this run"
FATAL_KINDS = {"cannot_pause": "CannotPauseError"}
"""Failures that every trial of the study would have, and the error that ``run`` raises for them."""


class Attempt(msgspec.Struct):
    """The facts about one lane of a lease; unpacked work has one."""

    lease: Lease
    batch: Batch
    """The work that it permits."""
    trials: list[TrialId]
    """The RUNNING trials that it brings to their targets, by id."""
    resource: int = 0
    """Units of training done, as last reported under this lease; before an evaluation one less than its resource."""
    since_s: float = 0.0
    """Driver's clock when the lease was given."""
    last_s: float | None = None
    """Driver's clock at the last report under this lease."""
    peers: int = 1
    """How many lanes of its lease trained at its last report, itself included."""
    save_points: list[CheckpointRef] = []
    """The positions, besides the ends of its stages, at which it was told to save."""
    committed: int | None = None
    """Resource of the newest checkpoint that is durable under this lease."""
    settled: int | None = None
    """Resource of the newest checkpoint that is durable or could not be made durable."""
    end: TrainingEnded | None = None
    """How its training ended; None while it trains."""
    is_stop_sent: bool = msgspec.field(name="is_told", default=False)
    """It was told to stop."""
    is_closed: bool = False
    """It was told to stop and has no trial left; its further messages are ignored."""
    is_lost: bool = False
    """Its worker is gone."""
    cut: int | None = None
    """Resource beyond which no unit is needed any more; its worker may have passed it."""
    is_planned: bool = True
    """Whether the plan counts its stages as being trained."""
    lane: int = 0
    """Number of the lane in the work."""
    lanes: int = 1
    """How many lanes train in one process, itself included: at its beginning, or when another lane joined last."""
    is_open: bool = False
    """Whether its lease is one that other lanes may join."""
    is_shut: bool = False
    """Whether none may join it any more: its process ends, or may hang."""
    has_joined: bool = False
    """Whether it joined a lease that trained already."""
    size: int = 1
    """How many workers train it together."""
    device: str = ""
    """The device that it trains on, as its trainer has told. Empty if it has not."""
    resize: str = ""
    """Why it was cut, so that its trials go on with another number of workers. Empty if it was not."""

    @property
    def number(self) -> int:
        """Its number in the study: a lease with K lanes takes the K numbers from its own on."""
        return self.lease.number + self.lane

    @property
    def trial(self) -> TrialId:
        """The trial that names its log: the first one that reads from the stage in training."""
        return self.stage_at(self.next_unit).trials[0]

    @property
    def is_too_large(self) -> bool:
        """Whether its training ended since the trainings of its process had too little memory together."""
        return self.lanes > 1 and self.end is not None and self.end.error_kind in MEMORY_KINDS

    @property
    def is_evaluation(self) -> bool:
        """Whether it evaluates a loaded checkpoint without training."""
        first = self.batch.stages[0]
        return first.start == first.stop

    @property
    def stop(self) -> int:
        """Resource at which it should end."""
        end = self.batch.stages[-1].stop
        return end if self.cut is None else min(end, self.cut)

    @property
    def is_spared(self) -> bool:
        """Whether it needs no checkpoint at its end."""
        return not self.batch.stages[-1].save

    @property
    def has_returned_early(self) -> bool:
        """Whether the user's function returned before the end of its work."""
        end = self.end
        return end is not None and end.outcome is Outcome.RETURNED and end.resource < self.batch.stages[-1].stop

    @property
    def is_training(self) -> bool:
        """Whether a worker trains under the lease and the training is still needed."""
        return self.end is None and not self.is_closed and not self.is_lost

    @property
    def is_committing(self) -> bool:
        """Whether its training has ended and a checkpoint of it is still being stored."""
        return self.end is not None and not self.is_over

    @property
    def is_leaving(self) -> bool:
        """Whether it has trained all of its units and is only to save, so that another may have its place in a pack.

        One that was cut may train a unit more.
        """
        return self.end is None and not self.is_evaluation and self.resource >= self.batch.stages[-1].stop

    @property
    def is_all_saved(self) -> bool:
        """Whether all of its work is durable, so that only its end is missing."""
        return self.committed is not None and self.committed >= self.stop

    @property
    def is_over(self) -> bool:
        """Whether no further event under the lease is needed."""
        if self.is_lost or self.end is None:
            return self.is_lost
        awaited = self.end.checkpoint_resource
        return self.is_closed or awaited is None or (self.settled is not None and self.settled >= awaited)

    @property
    def next_unit(self) -> int:
        """Resource at the end of the current unit, or of the last one."""
        return max(self.resource, min(self.resource + 1, self.stop))

    @property
    def has_ended_well(self) -> bool:
        """Whether its training reached its end, or the user's function returned."""
        return self.end is not None and not self.is_closed and self.end.outcome in (Outcome.REACHED, Outcome.RETURNED)

    @property
    def is_durable(self) -> bool:
        """Whether its training has ended, and every checkpoint that it saved is durable."""
        if self.end is None:
            return False
        awaited = self.end.checkpoint_resource
        return awaited is None or (self.committed is not None and self.committed >= awaited)

    def misnamed(self, message: Event) -> str:
        """Return the part of a message that is not of its work, or undoes it. Empty if there is none."""
        start, end = self.batch.stages[0].start, self.batch.stages[-1].stop
        if isinstance(message, CheckpointCommitted | CheckpointFailed):
            at = message.checkpoint
            if not start < at.resource <= end or at.node != self.node_at(at.resource):
                return f"the checkpoint at {at.resource} of node {at.node[:8]}"
            if self.end is not None and at.resource > self.end.resource:
                return f"a checkpoint at {at.resource}, of a training that ended at {self.end.resource},"
        elif isinstance(message, Reported):
            if message.resource > end:
                return f"resource {message.resource}"
        elif isinstance(message, TrainingEnded):
            saved, durable = message.checkpoint_resource, self.committed or 0
            done = max(self.resource, durable, saved or 0)
            if message.resource > end:
                return f"resource {message.resource}"
            if saved is not None and not start < saved <= end:
                return f"a checkpoint at {saved}"
            if message.resource < done:  # else trials would wait for units that the plan counts as trained
                return f"an end at {message.resource}, with units up to {done},"
            if (saved or 0) < durable:
                return f"an end whose last checkpoint is at {saved}, with one at {durable},"
        return ""

    def stage_at(self, resource: int) -> PlannedStage:
        """Return the stage in which the unit that ends at ``resource`` lies, or the last one."""
        stages = self.batch.stages
        for stage in stages:
            if resource <= stage.stop:
                return stage
        return stages[-1]

    def node_at(self, resource: int) -> NodeKey:
        """Return the node in which the unit that ends at ``resource`` lies."""
        return self.stage_at(resource).node


class Verdict(msgspec.Struct, frozen=True):
    """The next state of a trial, with the reason."""

    to: TrialState
    reason: str = ""
    detail: str = ""
    stops_run: str = ""
    """Name of the error that ends the whole run, if the failure concerns every trial."""


def verdict_on_failure(end: TrainingEnded) -> Verdict:
    """Return the verdict on a trial that needed a failed training."""
    first_line = end.error.strip().splitlines()[-1:] or [end.error_kind or "it failed without a word"]
    return Verdict(TrialState.FAILED, first_line[0], end.error, FATAL_KINDS.get(end.error_kind, ""))


class Reporting(NamedTuple):
    """The metrics that the trials of a study have reported so far."""

    metric: str
    """The metric of the study."""
    names: Set[str]
    """All names that any trial has reported."""
    since: int
    """The lowest resource at which any trial reported the metric. 0 if none did."""


def verdict_on_end(
    end: TrainingEnded, trial: Trial, max_resource: int | None, reporting: Reporting, *, is_spared: bool = False
) -> Verdict:
    """Return the verdict on a trial that a successful training brought to its target, or to its end.

    Its checkpoint is durable, unless nobody would load it (``is_spared``).
    """
    if end.error:
        return Verdict(TrialState.STOPPED, end.error)
    is_pause = end.outcome is Outcome.REACHED and not is_end(trial.target, max_resource)
    missing = missing_metric(trial, reporting, is_pause=is_pause)
    if missing is not None:
        return missing
    if is_pause:
        if is_spared and end.checkpoint_resource != end.resource:
            return Verdict(TrialState.PAUSED, _at("paused", end.resource) + WITHOUT)
        if end.checkpoint_resource is None:
            reason = (
                f"it is at its target {trial.target} {UNSAVED} and load= to trial.epochs(), "
                "or use a scheduler that does not pause, such as ASHA(..., variant='stopping')."
            )
            return Verdict(TrialState.FAILED, reason, stops_run="CannotPauseError")
        return Verdict(TrialState.PAUSED, _at("paused", end.checkpoint_resource))
    words = "trained to the end" if is_end(trial.resource, max_resource) else "its function returned"
    at_end = _at(f"{words},", trial.resource)
    return Verdict(TrialState.COMPLETED, at_end + unreported_words(end, reporting.metric) if end.unreported else at_end)


def unreported_words(end: TrainingEnded, metric: str) -> str:
    """Return the words for a value that a function returned beside its reports, and the change to make."""
    shown = [f"{name[:_NAME_CHARS]}={value}" for name, value in itertools.islice(end.unreported.items(), _SHOWN)]
    left_out = len(end.unreported) - len(shown)
    values = ", ".join(shown) + (f" and {left_out:,} more" if left_out else "")
    line = f"trial.report({metric_in_call(metric)})"
    return (
        f"{RETURNED_BESIDE} {values}, which is not recorded, as all units had their reports and the value of a trial "
        f"is its last report: let the last {line} report what counts, or report nothing and return it"
    )


def verdict_at_target(trial: Trial, max_resource: int | None, reporting: Reporting, how: str = "") -> Verdict:
    """Return the verdict on a trial whose units up to its target are trained; ``how`` completes the reason."""
    missing = missing_metric(trial, reporting, is_pause=not is_end(trial.target, max_resource))
    if missing is not None:
        return missing
    if is_end(trial.target, max_resource):
        return Verdict(TrialState.COMPLETED, f"trained to the end, at {trial.resource}{how}")
    return Verdict(TrialState.PAUSED, f"paused at {trial.target}{how}")


@functools.lru_cache(maxsize=10_000)
def _at(words: str, resource: int) -> str:
    """Return a text that many trials share as one object: else each would hold 70 bytes of its own."""
    return f"{words} at {resource}"


def missing_metric(trial: Trial, reporting: Reporting, *, is_pause: bool = False) -> Verdict | None:
    """Return the failure of a trial that came to its end, or to a pause, without any value of the metric.

    The run fails too if no trial ever reported the metric; or if none did so early, as then no trial can be compared
    where this one pauses.

    Args:
        trial: that ended, or would pause.
        reporting: the metrics of all trials.
        is_pause: whether it would pause, so that its function has returned nothing yet.
    """
    if trial.value_resource > 0:
        return None
    metric, since = reporting.metric, reporting.since
    names = ", ".join(repr(name) for name in sorted(reporting.names)) or "nothing"
    came = f"was to pause at {trial.target}" if is_pause else f"ended at {trial.resource}"
    reason = f"{trial.name} {came} {NEVER} {metric!r}; reported so far: {names}."
    place = " inside the loop (what a function returns counts at its end alone)" if is_pause else ""
    line = f"trial.report({metric_in_call(metric)})"
    if metric not in reporting.names:
        advice = f"{reason} Report it with {line}{place}, or set metric= to a name that is reported."
        return Verdict(TrialState.FAILED, advice, stops_run="MetricNotReportedError")
    if is_pause and trial.target is not None and since > trial.target:
        late = f"No trial reported it before {since}, so that none can be compared at {trial.target}."
        advice = f"{reason} {late} Use min_resource={since} or more, or report it there with {line}{place}."
        return Verdict(TrialState.FAILED, advice, stops_run="MetricNotReportedError")
    return Verdict(TrialState.FAILED, reason)
