"""An attempt is the life of one lease: what is known of it, and what its end means for its trials. Pure."""

from __future__ import annotations

import functools
from collections.abc import Set

import msgspec

from asyncsearch.events import Outcome, TrainingEnded
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, TrialId
from asyncsearch.plan.base_plan import Batch, PlannedStage
from asyncsearch.trial import Trial, TrialState, is_end

FATAL_KINDS = {"cannot_pause": "CannotPauseError"}
"""Failures that every trial of the study would share, and the error that ``run`` raises for them."""


class Attempt(msgspec.Struct):
    """What is known of one lease."""

    lease: Lease
    batch: Batch
    """What was given to it."""
    trials: list[TrialId]
    """The RUNNING trials that it is to bring to their targets, by id."""
    resource: int = 0
    """Units of training done, as last reported under this lease; before an evaluation one less than it evaluates."""
    since_s: float = 0.0
    """Driver's clock when the lease was given."""
    last_s: float | None = None
    """Driver's clock at the last report under this lease."""
    save_points: list[CheckpointRef] = []
    """Where it was told to save besides the ends of its stages."""
    committed: int | None = None
    """Resource of the newest checkpoint that is durable under this lease."""
    settled: int | None = None
    """Resource of the newest checkpoint that is durable or could not be made so."""
    end: TrainingEnded | None = None
    """How its training ended; None while it trains."""
    is_stop_sent: bool = msgspec.field(name="is_told", default=False)
    """It was told to stop."""
    is_closed: bool = False
    """It was told to stop and has no trial left; its further messages count no more."""
    is_lost: bool = False
    """Its worker is gone."""
    cut: int | None = None
    """Resource beyond which nothing is wanted any more; its worker may have passed there."""
    is_planned: bool = True
    """Whether the plan counts its stages as being trained."""

    @property
    def trial(self) -> TrialId:
        """The trial that names its log: the first one that reads from the stage in training."""
        return self.stage_at(self.next_unit).trials[0]

    @property
    def is_evaluation(self) -> bool:
        """Whether it trains nothing and reports of what it loads."""
        return self.batch.stages[0].start == self.batch.stages[0].stop

    @property
    def stop(self) -> int:
        """Resource at which it is to end."""
        end = self.batch.stages[-1].stop
        return end if self.cut is None else min(end, self.cut)

    @property
    def has_returned_early(self) -> bool:
        """Whether the user's function returned before the end of what was given to it."""
        end = self.end
        return end is not None and end.outcome is Outcome.RETURNED and end.resource < self.batch.stages[-1].stop

    @property
    def is_training(self) -> bool:
        """Whether a worker trains under the lease and somebody still wants that."""
        return self.end is None and not self.is_closed and not self.is_lost

    @property
    def is_all_saved(self) -> bool:
        """Whether all that it was given is durable, so that only its end is to come."""
        return self.committed is not None and self.committed >= self.stop

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to come under the lease that anybody waits for."""
        if self.is_lost or self.end is None:
            return self.is_lost
        awaited = self.end.checkpoint_resource
        return self.is_closed or awaited is None or (self.settled is not None and self.settled >= awaited)

    @property
    def next_unit(self) -> int:
        """Resource at the end of the unit that is being trained, or of the last one."""
        return max(self.resource, min(self.resource + 1, self.stop))

    @property
    def has_ended_well(self) -> bool:
        """Whether its training came to its end, or to the user's own."""
        return self.end is not None and not self.is_closed and self.end.outcome in (Outcome.REACHED, Outcome.RETURNED)

    @property
    def is_durable(self) -> bool:
        """Whether its training has ended, and every checkpoint that it saved is durable."""
        if self.end is None:
            return False
        awaited = self.end.checkpoint_resource
        return awaited is None or (self.committed is not None and self.committed >= awaited)

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
    """Where a trial goes."""

    to: TrialState
    reason: str = ""
    detail: str = ""
    stops_run: str = ""
    """Name of the error that ends the whole run, if this concerns every trial."""


def verdict_on_failure(end: TrainingEnded) -> Verdict:
    """Say what a failed training means for a trial that needed it."""
    first_line = end.error.strip().splitlines()[-1:] or [end.error_kind or "it failed without a word"]
    return Verdict(TrialState.FAILED, first_line[0], end.error, FATAL_KINDS.get(end.error_kind, ""))


def verdict_on_end(end: TrainingEnded, trial: Trial, max_resource: int | None, metric: str, names: Set[str]) -> Verdict:
    """Say what the good end of a training means for a trial that it brought to its target, or to its own end.

    Its checkpoint is durable; ``names`` are all under which any trial ever reported.
    """
    missing = missing_metric(trial, metric, names)
    if missing is not None:
        return missing
    if end.outcome is Outcome.REACHED and not is_end(trial.target, max_resource):
        if end.checkpoint_resource is None:
            reason = (
                f"it stands at its target {trial.target} without a checkpoint. Give save= and load= to trial.epochs(), "
                "or use a scheduler that does not pause, such as ASHA(..., variant='stopping')."
            )
            return Verdict(TrialState.FAILED, reason, stops_run="CannotPauseError")
        return Verdict(TrialState.PAUSED, _at("paused", end.checkpoint_resource))
    words = "trained to the end" if is_end(trial.resource, max_resource) else "its function returned"
    return Verdict(TrialState.COMPLETED, _at(f"{words},", trial.resource))


def verdict_at_target(trial: Trial, max_resource: int | None, metric: str, names: Set[str], how: str) -> Verdict:
    """Say what it means for a trial that all up to its target is trained, with ``how`` in words."""
    missing = missing_metric(trial, metric, names)
    if missing is not None:
        return missing
    if is_end(trial.target, max_resource):
        return Verdict(TrialState.COMPLETED, f"trained to the end, at {trial.resource}{how}")
    return Verdict(TrialState.PAUSED, f"paused at {trial.target}{how}")


@functools.lru_cache(maxsize=10_000)
def _at(words: str, resource: int) -> str:
    """Return words that many trials have as the one object: else each would keep 70 bytes of its own."""
    return f"{words} at {resource}"


def missing_metric(trial: Trial, metric: str, known_names: Set[str]) -> Verdict | None:
    """A trial that ends without ever having reported the metric has failed; if no trial ever did, so has the run."""
    if trial.value_resource > 0:
        return None
    names = ", ".join(repr(name) for name in sorted(known_names)) or "nothing"
    reason = f"{trial.name} finished and never reported {metric!r}; reported so far: {names}."
    if metric in known_names:
        return Verdict(TrialState.FAILED, reason)
    advice = f"{reason} Report it with trial.report({metric}=...), or set metric= to a name that is reported."
    return Verdict(TrialState.FAILED, advice, stops_run="MetricNotReportedError")
