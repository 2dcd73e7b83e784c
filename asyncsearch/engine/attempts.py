"""An attempt is the life of one lease; here stands what its end means for its trial. Pure."""

from __future__ import annotations

from collections.abc import Set

import msgspec

from asyncsearch.events import Outcome, TrainingEnded
from asyncsearch.ids import Lease, TrialId
from asyncsearch.trial import Trial, TrialState

FATAL_KINDS = {"cannot_pause": "CannotPauseError"}
"""Failures that every trial of the study would share, and the error that ``run`` raises for them."""


class Attempt(msgspec.Struct):
    """What is known of one lease."""

    lease: Lease
    trial: TrialId
    target: int | None
    resource: int = 0
    """Units of training done, as last reported under this lease."""
    since_s: float = 0.0
    """Driver's clock when the lease was given."""
    has_value: bool = False
    """Whether the metric was reported under this lease."""
    score: float | None = None
    """The last report of the metric under this lease, smaller is better; None: none, or not finite."""
    committed: int | None = None
    """Resource of the newest checkpoint that is durable under this lease."""
    end: TrainingEnded | None = None
    """How its training ended; None while it trains."""
    is_closed: bool = False
    """Its trial was moved on; what still arrives under the lease counts no more."""

    @property
    def is_training(self) -> bool:
        """Whether a worker trains under the lease and its trial still wants that."""
        return self.end is None and not self.is_closed

    def awaits(self, resource: int) -> bool:
        """Whether the attempt is only waiting for its checkpoint at ``resource`` to become durable."""
        return not self.is_closed and self.end is not None and self.end.checkpoint_resource == resource


class Verdict(msgspec.Struct, frozen=True):
    """Where a trial goes when its attempt ends. ``to`` None: wait for the checkpoint."""

    to: TrialState | None
    reason: str = ""
    detail: str = ""
    stops_run: str = ""
    """Name of the error that ends the whole run, if this concerns every trial."""


def verdict_on_end(
    attempt: Attempt, trial: Trial, max_resource: int | None, metric: str, known_names: Set[str]
) -> Verdict:
    """Say what the end of an attempt's training means.

    Args:
        attempt: one whose training has ended and whose trial still belongs to it.
        trial: its trial.
        max_resource: resource at which a trial is complete, or None.
        metric: name of the study's metric.
        known_names: every name under which any trial ever reported.
    """
    end = attempt.end
    assert end is not None
    match end.outcome:
        case Outcome.FAILED:
            first_line = end.error.strip().splitlines()[-1:] or [end.error_kind or "it failed without a word"]
            return Verdict(TrialState.FAILED, first_line[0], end.error, FATAL_KINDS.get(end.error_kind, ""))
        case Outcome.STOPPED:
            return Verdict(TrialState.WAITING, "it was interrupted")
        case Outcome.REACHED | Outcome.RETURNED:
            pass
    missing = _missing_metric(trial, metric, known_names)
    if missing is not None:
        return missing
    if end.checkpoint_resource is not None and attempt.committed != end.checkpoint_resource:
        return Verdict(None)
    if end.outcome is Outcome.REACHED and trial.target is not None and trial.target != max_resource:
        return _verdict_on_pause(end, trial)
    words = "trained to the end" if trial.resource == max_resource else "its function returned"
    return Verdict(TrialState.COMPLETED, f"{words}, at {trial.resource}")


def _verdict_on_pause(end: TrainingEnded, trial: Trial) -> Verdict:
    if end.checkpoint_resource is None:
        reason = (
            f"it stands at its target {trial.target} without a checkpoint. Give save= and load= to trial.epochs(), "
            "or use a scheduler that does not pause, such as ASHA(..., variant='stopping')."
        )
        return Verdict(TrialState.FAILED, reason, stops_run="CannotPauseError")
    return Verdict(TrialState.PAUSED, f"paused at {end.checkpoint_resource}")


def _missing_metric(trial: Trial, metric: str, known_names: Set[str]) -> Verdict | None:
    """A trial that ends without ever having reported the metric has failed; if no trial ever did, so has the run."""
    if trial.value_resource > 0:
        return None
    names = ", ".join(repr(name) for name in sorted(known_names)) or "nothing"
    reason = f"{trial.name} finished and never reported {metric!r}; reported so far: {names}."
    if metric in known_names:
        return Verdict(TrialState.FAILED, reason)
    advice = f"{reason} Report it with trial.report({metric}=...), or set metric= to a name that is reported."
    return Verdict(TrialState.FAILED, advice, stops_run="MetricNotReportedError")
