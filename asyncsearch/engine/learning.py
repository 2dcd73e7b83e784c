"""Facts change the state here, and nothing is decided. Pure; see ``asyncsearch.engine.state`` for the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsearch.engine.attempts import Attempt
from asyncsearch.events import (
    AnyEvent,
    CheckpointCommitted,
    CheckpointFailed,
    DriverStarted,
    Outcome,
    Reported,
    RunRequested,
    StopRequested,
    TrainingEnded,
    TrialTimedOut,
    WorkerAttached,
    WorkerLost,
)
from asyncsearch.nonfinite import finite
from asyncsearch.trial import Trial

if TYPE_CHECKING:
    from asyncsearch.engine.state import StudyState


def learn(state: StudyState, event: AnyEvent) -> None:
    """Take in a fact that is not stale."""
    match event:
        case DriverStarted():
            state.pool.clear()
            state.run, state.stopping, state.stopping_kind = None, "", ""
            _forget_closed(state, list(state.attempts.values()))
        case RunRequested():
            state.run, state.stopping, state.stopping_kind = event, "", ""
            state.scheduler.budget(event.num_trials)
        case WorkerAttached():
            state.pool.slot(event.worker).host = event.host
            state.pool.free(event.worker)
        case WorkerLost():
            state.pool.lose(event.worker)
            state.pool.slots[event.worker].fruitless += 1
            _forget_closed(state, state.attempts_of(event.worker))
            for attempt in state.attempts_of(event.worker):
                state.trials[attempt.trial].losses += 1
        case Reported():
            _learn_report(state, event)
        case TrainingEnded():
            _learn_end(state, event)
        case CheckpointCommitted():
            _learn_commit(state, event)
        case CheckpointFailed():
            attempt = state.attempts[event.lease.number]
            if attempt.awaits(event.checkpoint.resource):
                state.trials[attempt.trial].failures += 1
        case TrialTimedOut():
            attempt = state.attempts[event.lease.number]
            if not attempt.is_closed:
                state.trials[attempt.trial].failures += 1
        case StopRequested():
            state.stopping = state.stopping or event.reason


def _learn_report(state: StudyState, event: Reported) -> None:
    attempt = state.attempts[event.lease.number]
    trial = state.trials[attempt.trial]
    if attempt.is_closed or event.resource <= attempt.resource:
        return
    trial.trained += event.resource - attempt.resource
    attempt.resource = event.resource
    state.metric_names.update(event.metrics)
    if state.config.metric in event.metrics:
        _learn_value(state, attempt, trial, event)
    if event.resource > trial.resource:
        trial.resource = event.resource
        score = attempt.score if attempt.has_value else None
        state.scheduler.reported(trial.id, event.resource, score)
        state.searcher.reported(trial.id, event.resource, score)


def _learn_value(state: StudyState, attempt: Attempt, trial: Trial, event: Reported) -> None:
    value = event.metrics[state.config.metric]
    attempt.has_value, attempt.score = True, state.score(value)
    trial.value, trial.value_resource = finite(value), event.resource
    best = state.score(trial.best)
    if attempt.score is not None and (best is None or attempt.score < best):
        trial.best, trial.best_resource = finite(value), event.resource


def _learn_commit(state: StudyState, event: CheckpointCommitted) -> None:
    attempt = state.attempts[event.lease.number]
    trial = state.trials[attempt.trial]
    attempt.committed = event.checkpoint.resource
    if not attempt.is_closed:
        if trial.checkpoint is not None and trial.checkpoint != event.checkpoint:
            state.unreachable[trial.checkpoint] = trial.id
        trial.checkpoint = event.checkpoint
    elif trial.state.is_finished:
        state.unreachable[event.checkpoint] = trial.id


def _forget_closed(state: StudyState, attempts: list[Attempt]) -> None:
    for attempt in attempts:
        if attempt.is_closed:
            del state.attempts[attempt.lease.number]


def _learn_end(state: StudyState, event: TrainingEnded) -> None:
    attempt = state.attempts[event.lease.number]
    if attempt.end is not None:
        return
    attempt.end = event
    trial = state.trials[attempt.trial]
    if event.outcome is Outcome.FAILED and not attempt.is_closed:
        if event.error_kind == "checkpoint":
            _forget_checkpoint(state, trial)
        else:
            trial.failures += 1
    if event.resource > attempt.resource:
        trial.trained += event.resource - attempt.resource
        attempt.resource = event.resource
    slot = state.pool.slots[event.lease.worker]
    slot.fruitless = 0
    if slot.lease == event.lease.number:
        state.pool.free(event.lease.worker)
    if attempt.is_closed:
        del state.attempts[event.lease.number]


def _forget_checkpoint(state: StudyState, trial: Trial) -> None:
    """A checkpoint that cannot be read is no reason to fail the trial: it starts again from the beginning."""
    trial.losses += 1
    if trial.checkpoint is not None:
        state.unreachable[trial.checkpoint] = trial.id
        trial.checkpoint = None
