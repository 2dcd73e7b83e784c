"""Decides the stops of a trial, of a training and of the run, each with its reason. Pure.

A report stops a trial where its scheduler or its stop rule says so (``judge``). Its worker stops once no trial needs
the rest of the work, which ``filling.adjust`` finds out from the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from asyncsearch.actions import AnyAction, MoveTrial, StopRun, StopTraining
from asyncsearch.arguments import as_unicode
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.stop_decisions import end_trial_by_rule
from asyncsearch.events import Reported
from asyncsearch.ids import TrialId
from asyncsearch.trial import Trial, TrialState

Emit = Callable[[AnyAction], None]
"""Applies an action at once, and keeps it for the journal."""


def judge(state: StudyState, trial: Trial, emit: Emit) -> bool:
    """Stop a trial if its scheduler or its stop rule decides so; return whether it is stopped."""
    if (reason := state.scheduler.judge(trial.id, trial.resource)) is not None:
        emit(MoveTrial(trial.id, TrialState.STOPPED, as_unicode(reason)))
        return True
    return state.config.stop_trial_when is not None and end_trial_by_rule(state, trial, emit)


def judges(state: StudyState) -> bool:
    """Return whether trials are judged by their reports at all."""
    return state.scheduler.judges or state.config.stop_trial_when is not None


def judged_next(state: StudyState, trials: Iterable[TrialId], resource: int) -> int | None:
    """Return the first resource beyond this one where one of some trials is judged. None if there is none."""
    if state.config.stop_trial_when is not None or (state.best_saved.size and state.config.can_save):
        return resource + 1
    if not state.scheduler.judges:
        return None
    places = [state.scheduler.judged_next(trial, resource) for trial in trials]
    return min((place for place in places if place is not None), default=None)


def judged_after(state: StudyState, report: Reported) -> int | None:
    """Return where the lane of a report is judged next. None if it is judged no more, or over."""
    attempt = state.attempt(report.lease, report.lane)
    if attempt is None or report.resource >= attempt.stop:
        return None
    beyond = report.resource + 1
    return judged_next(state, state.plan.subscribers_at(attempt.node_at(beyond), beyond), report.resource)


def stop_run(state: StudyState, reason: str, kind: str, emit: Emit) -> None:
    """Begin to end the run for a reason that concerns all trials."""
    emit(StopRun(reason, kind))
    stop_all(state, reason, emit)


def stop_all(state: StudyState, reason: str, emit: Emit) -> None:
    """Tell all attempts to stop training, and to wait no longer for a store that takes no checkpoint."""
    for attempt in list(state.attempts.values()):
        if attempt.is_committing and not attempt.is_stop_sent:
            emit(StopTraining(attempt.lease, reason, attempt.lane))
        stop_training(attempt, reason, emit)


def stop_training(attempt: Attempt, reason: str, emit: Emit) -> None:
    """Tell an attempt to stop, once."""
    if attempt.is_training and not attempt.is_stop_sent:
        emit(StopTraining(attempt.lease, reason, attempt.lane))


def stop_losers(state: StudyState, losers: Sequence[TrialId], emit: Emit) -> None:
    """Stop the trials that wait where others went on in their place: nothing would ever load their checkpoints."""
    for number in losers:
        if state.trials[number].state is TrialState.PAUSED:
            emit(MoveTrial(number, TrialState.STOPPED, state.scheduler.position(number)))
