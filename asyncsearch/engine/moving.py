"""Decides the next state of one trial that is not stopped, with its reason. Pure; ``stopping`` has the stops."""

from __future__ import annotations

from asyncsearch.actions import Inherit, MoveTrial
from asyncsearch.engine.affected import is_at_target, is_to_be_evaluated, trials_unsaved
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.stop_decisions import stopped_by_rule
from asyncsearch.engine.stopping import Emit, judge, stop_run
from asyncsearch.engine.transitions import Verdict, verdict_at_target
from asyncsearch.events import TrainingEnded
from asyncsearch.trial import Trial, TrialState


def requeue_lost(state: StudyState, trial: Trial, reason: str, emit: Emit, detail: str = "") -> None:
    """Let a trial whose attempt was lost wait again; after too many in a row the trial itself is blamed and fails."""
    losses = state.consecutive_losses.get(trial.id)
    if losses is not None and losses.is_charged(state.config.max_losses):
        many = "1 attempt was" if losses.count == 1 else f"{losses.count} attempts were"
        words = f"{many} lost without progress beyond {losses.resource}; the last one: {reason}"
        emit(MoveTrial(trial.id, TrialState.FAILED, words, detail))
    else:
        wait(state, trial, reason, emit, detail)


def requeue(state: StudyState, attempt: Attempt, emit: Emit) -> None:
    """Let the trials that an attempt will not bring to their targets wait again."""
    for number in list(attempt.trials):
        reason = state.stopping or attempt.resize or "its work was returned unfinished"
        wait(state, state.trials[number], reason, emit)


def requeue_unsaved(state: StudyState, attempt: Attempt, end: TrainingEnded, reason: str, emit: Emit) -> None:
    """Let the trials of an attempt that ended early wait, except those whose checkpoint is still being stored."""
    for trial in trials_unsaved(state, attempt, end):
        wait(state, trial, reason, emit)


def wait(state: StudyState, trial: Trial, reason: str, emit: Emit, detail: str = "") -> None:
    """Let a trial wait again, unless all units that it waits for are trained and durable."""
    if stopped_by_rule(state, trial, TrialState.WAITING, emit):
        return
    emit(MoveTrial(trial.id, TrialState.WAITING, reason, detail))
    before = trial.resource
    if inherit_known(state, trial, emit):
        return
    if trial.resource > before:
        settle_from_known(state, trial, emit)
    elif is_at_target(state, trial):
        settle_at_target(state, trial, emit)


def settle_at_target(state: StudyState, trial: Trial, emit: Emit) -> None:
    """Move a trial that is at its target, with all units up to there trained.

    If the metric is still missing, the trial waits for its evaluation.
    """
    if inherit_known(state, trial, emit):
        return
    if is_to_be_evaluated(state, trial):
        if trial.state is TrialState.RUNNING:
            emit(MoveTrial(trial.id, TrialState.WAITING, f"nothing was reported at {trial.target}: to be evaluated"))
        return
    move_by(state, trial, verdict_at_target(trial, state.max_resource, state.reporting), emit)


def move_by(state: StudyState, trial: Trial, verdict: Verdict, emit: Emit) -> None:
    """Move a trial to the state of a verdict."""
    if stopped_by_rule(state, trial, verdict.to, emit):
        return
    emit(MoveTrial(trial.id, verdict.to, verdict.reason, verdict.detail))
    if verdict.stops_run and state.is_agreed(verdict.stops_run):
        stop_run(state, verdict.reason, verdict.stops_run, emit)


def fail_or_retry(state: StudyState, trial: Trial, verdict: Verdict, emit: Emit) -> None:
    """Fail a trial that has no retries left, else let it wait."""
    tries = state.config.max_failures + 1
    if trial.failures >= tries:
        emit(MoveTrial(trial.id, TrialState.FAILED, verdict.reason, verdict.detail))
    elif trial.state is TrialState.RUNNING:
        words = f"attempt {trial.failures} of {tries} failed: {verdict.reason}"
        wait(state, trial, words, emit, verdict.detail)


def settle_from_known(state: StudyState, trial: Trial, emit: Emit) -> None:
    """Let a trial read the known reports, and settle it if they bring it to its target."""
    if trial.checkpoint is None and not state.plan.reports.nodes:
        return  # nothing is known: each trial that shares nothing begins so
    if inherit_known(state, trial, emit):
        return
    ended = state.plan.reports.ended(trial.steps)
    has_returned_early = ended is not None and trial.resource >= ended
    if (trial.resource and (has_returned_early or trial.resource >= trial.horizon)) or is_at_target(state, trial):
        words = ", as is known already"
        verdict = verdict_at_target(trial, state.max_resource, state.reporting, words)
        move_by(state, trial, _at_return(trial, verdict, words) if has_returned_early else verdict, emit)


def inherit_known(state: StudyState, trial: Trial, emit: Emit) -> bool:
    """Let a trial read the known reports up to its target; return whether it was stopped."""
    if not state.plan.reports.nodes:
        return False
    for resource, _ in list(state.plan.reports.between(trial.steps, trial.resource, trial.horizon)):
        emit(Inherit(trial.id, resource))
        if judge(state, trial, emit):
            return True
    return False


def inherit_news(state: StudyState, trial: Trial, emit: Emit) -> None:
    """Let a waiting trial read the reports of others, if they are new to it."""
    before = trial.resource
    if inherit_known(state, trial, emit):
        return
    if trial.resource > before or is_at_target(state, trial) or state.plan.reports.ended(trial.steps) is not None:
        settle_from_known(state, trial, emit)


def _at_return(trial: Trial, verdict: Verdict, words: str) -> Verdict:
    if verdict.to is TrialState.FAILED:
        return verdict
    return Verdict(TrialState.COMPLETED, f"its function returned, at {trial.resource}{words}")
