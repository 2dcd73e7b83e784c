"""The life of a trial: one literal table of its changes of state, and the verdicts that choose one where training ends.

Rule 1: every change of a trial's state is a lookup here; a transition that is not in the table cannot happen.
Rule 2: pure, as ``asyncsearch.engine.handling`` says.

A trial begins as WAITING. A worker takes it (RUNNING). Then it is paused at its target and perhaps promoted (back to
WAITING), or it ends: COMPLETED, STOPPED or FAILED. An attempt that was lost, failed with retries left, or was
interrupted moves it back to WAITING, and it continues from its newest checkpoint. Another trial may train the stages
that it waits for, so it may also move from WAITING to every state that RUNNING leads to.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Set
from typing import NamedTuple

import msgspec

from asyncsearch.arguments import metric_in_call
from asyncsearch.errors import InvalidTransitionError
from asyncsearch.events import Outcome, TrainingEnded
from asyncsearch.ids import TrialId, trial_name
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

TRANSITIONS: dict[tuple[TrialState, TrialState], str] = {
    (TrialState.WAITING, TrialState.RUNNING): "a worker took it",
    (TrialState.WAITING, TrialState.PAUSED): "it is at its target, trained with another trial",
    (TrialState.WAITING, TrialState.COMPLETED): "it reached its end, trained with another trial",
    (TrialState.WAITING, TrialState.STOPPED): "it was not worth finishing, as what it shares has shown",
    (TrialState.WAITING, TrialState.FAILED): "what it shares with another trial failed",
    (TrialState.RUNNING, TrialState.PAUSED): "it is at its target, saved",
    (TrialState.RUNNING, TrialState.COMPLETED): "it reached its end",
    (TrialState.RUNNING, TrialState.STOPPED): "it was not worth finishing",
    (TrialState.RUNNING, TrialState.FAILED): "it failed and has no tries left",
    (TrialState.RUNNING, TrialState.WAITING): "the attempt was lost, failed or interrupted",
    (TrialState.PAUSED, TrialState.WAITING): "it was promoted, or took over another's checkpoint",
    (TrialState.PAUSED, TrialState.STOPPED): "others went on in its place, and that is decided for ever",
}


def check_transition(trial: TrialId, source: TrialState, to: TrialState, story: str) -> None:
    """Check that a trial may change its state.

    Raises:
        InvalidTransitionError: the table has no such edge; the message names the trial, both states and the last event.
    """
    if (source, to) not in TRANSITIONS:
        legal = ", ".join(sorted(b.value for a, b in TRANSITIONS if a is source)) or "nothing"
        raise InvalidTransitionError(
            f"{trial_name(trial)} cannot move from {source.value} to {to.value} (from there: {legal}). "
            f"Last: {story or 'nothing happened to it yet'}. Please report this with the study's journal."
        )


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
