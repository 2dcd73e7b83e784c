"""Decisions change the state here, in the run that takes them and in every replay. Pure; see ``engine.state``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncsearch.actions import (
    AnyAction,
    Assign,
    CreateTrial,
    CutWork,
    DeleteCheckpoint,
    DismissWorker,
    EndProposals,
    EndRun,
    LaunchWorker,
    MoveTrial,
    Promote,
    SaveAt,
    StopRun,
    StopTraining,
)
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.transitions import check_transition
from asyncsearch.ids import worker_name
from asyncsearch.trial import Trial, TrialState

if TYPE_CHECKING:
    from asyncsearch.engine.state import StudyState


def apply(state: StudyState, action: AnyAction, now: float) -> None:
    """Apply a decision, new or recorded."""
    match action:
        case CreateTrial():
            _apply_create(state, action)
        case Promote():
            trial = state.trials[action.trial]
            trial.target = action.to_resource
            _move(state, trial, TrialState.WAITING, action.reason, now)
            state.scheduler.promoted(action.trial, action.from_resource, action.to_resource)
        case MoveTrial():
            _apply_move(state, action, now)
        case Assign():
            _apply_assign(state, action, now)
        case LaunchWorker():
            state.pool.launch(action.worker, action.epoch)
        case DismissWorker():
            state.pool.lose(action.worker)
        case EndProposals():
            state.is_exhausted = True
            state.scheduler.no_more_trials()
        case EndRun():
            state.run, state.stopping, state.stopping_kind = None, "", ""
        case StopRun():
            state.stopping, state.stopping_kind = action.reason, action.error_kind
        case DeleteCheckpoint():
            _apply_delete(state, action)
        case StopTraining() | SaveAt() | CutWork():
            pass


def _apply_create(state: StudyState, action: CreateTrial) -> None:
    state.trials.append(Trial(action.trial, action.params, action.node, target=action.target))
    state.proposals = action.proposal + 1
    state.waiting[action.trial] = None
    state.scheduler.created(action.trial)
    state.searcher.created(action.trial, action.params)


def _apply_assign(state: StudyState, action: Assign, now: float) -> None:
    lease = action.work.lease
    lane = action.work.lanes[0]
    trial = state.trials[lane.stages[0].trials[0]]
    _move(state, trial, TrialState.RUNNING, worker_name(lease.worker), now)
    state.waiting.pop(trial.id, None)
    state.next_lease = lease.number + 1
    state.open_attempts[trial.id] = lease.number
    state.attempts[lease.number] = Attempt(lease, trial.id, trial.target, resource=lane.stages[0].start, since_s=now)
    state.pool.occupy(lease.worker, lease.number)


def _apply_move(state: StudyState, action: MoveTrial, now: float) -> None:
    trial = state.trials[action.trial]
    attempt = state.open_attempt_of(trial.id)
    _move(state, trial, action.to, action.reason, now)
    if attempt is not None:
        del state.open_attempts[trial.id]
        attempt.is_closed = True
        if attempt.end is not None or not state.pool.is_current(attempt.lease.worker, attempt.lease.epoch):
            del state.attempts[attempt.lease.number]
    score = state.score(trial.value)
    match action.to:
        case TrialState.PAUSED:
            state.scheduler.paused(trial.id, trial.target or trial.resource, score)
        case TrialState.COMPLETED:
            state.scheduler.completed(trial.id, trial.resource, score)
        case TrialState.STOPPED:
            state.scheduler.stopped(trial.id, trial.resource)
        case TrialState.FAILED:
            score = None
            state.scheduler.failed(trial.id, trial.target)
        case TrialState.RUNNING | TrialState.WAITING:
            pass
    if action.to.is_finished:
        state.searcher.ended(trial.id, trial.resource, score)
        _retire_checkpoint(state, trial, score)


def _retire_checkpoint(state: StudyState, trial: Trial, score: float | None) -> None:
    if trial.checkpoint is None:
        return
    evicted = state.podium.offer(trial.id, score)
    if evicted is not None and (checkpoint := state.trials[evicted].checkpoint) is not None:
        state.unreachable[checkpoint] = evicted


def _apply_delete(state: StudyState, action: DeleteCheckpoint) -> None:
    owner = state.unreachable.pop(action.checkpoint, None)
    if owner is not None and state.trials[owner].checkpoint == action.checkpoint:
        state.trials[owner].checkpoint = None


def _move(state: StudyState, trial: Trial, to: TrialState, reason: str, now: float) -> None:
    check_transition(trial.id, trial.state, to, trial.reason)
    trial.state, trial.reason = to, reason
    if to is TrialState.RUNNING and trial.started_s is None:
        trial.started_s = now
    if to.is_finished:
        trial.ended_s = now
    if to is TrialState.WAITING:
        state.waiting[trial.id] = None
