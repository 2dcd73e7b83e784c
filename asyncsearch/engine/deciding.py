"""Decisions are taken here: what a fact means, and what to do next. Pure; see ``engine.state`` for the rules.

Every function asks the state and emits actions; ``emit`` applies each at once, so the next question sees its effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from asyncsearch.actions import (
    AnyAction,
    Assign,
    CreateTrial,
    DismissWorker,
    EndProposals,
    EndRun,
    LaunchWorker,
    MoveTrial,
    Promote,
    StopRun,
    StopTraining,
)
from asyncsearch.engine.attempts import Attempt, verdict_on_end
from asyncsearch.engine.pool import SlotState
from asyncsearch.errors import SpaceError
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
from asyncsearch.ids import Lease, TrialId, WorkerId, worker_name
from asyncsearch.plan.keys import trial_node
from asyncsearch.schedulers.base import Promotion
from asyncsearch.trial import Trial, TrialState
from asyncsearch.work import Lane, Stage, Work

if TYPE_CHECKING:
    from asyncsearch.engine.state import StudyState

Emit = Callable[[AnyAction], None]


def respond(state: StudyState, event: AnyEvent, emit: Emit) -> None:
    """Emit what a fact means for the trials and workers that it concerns."""
    match event:
        case WorkerAttached():
            pass
        case DriverStarted():
            for attempt in list(state.attempts.values()):
                emit(MoveTrial(attempt.trial, TrialState.WAITING, "its driver ended"))
        case RunRequested():
            if _is_anything_left(state):
                _launch(state, event.parallelism, emit)
        case WorkerLost():
            _respond_to_loss(state, event, emit)
        case Reported():
            _judge(state, event, emit)
        case TrainingEnded(lease=lease) | CheckpointCommitted(lease=lease):
            attempt_or_none = state.attempts.get(lease.number)
            if attempt_or_none is not None:
                _settle(state, attempt_or_none, emit)
        case CheckpointFailed():
            attempt = state.attempts[event.lease.number]
            if attempt.awaits(event.checkpoint.resource):
                error = f"its checkpoint at {event.checkpoint.resource} could not be stored: {event.error}"
                _fail_or_retry(state, attempt, error, event.error, emit)
        case TrialTimedOut():
            attempt = state.attempts[event.lease.number]
            if attempt.is_training:
                emit(StopTraining(event.lease, "it ran longer than trial_timeout"))
                _fail_or_retry(state, attempt, "it ran longer than trial_timeout", "", emit)
        case StopRequested():
            for attempt in list(state.attempts.values()):
                if attempt.is_training:
                    emit(StopTraining(attempt.lease, event.reason))


def _launch(state: StudyState, parallelism: int, emit: Emit) -> None:
    for number in range(parallelism):
        slot = state.pool.slot(WorkerId(number))
        if slot.state is SlotState.GONE:
            emit(LaunchWorker(slot.worker, slot.epoch + 1))


def _respond_to_loss(state: StudyState, event: WorkerLost, emit: Emit) -> None:
    lost = f"{worker_name(event.worker)} was lost: {event.reason}"
    for attempt in state.attempts_of(event.worker):
        _lose(state, attempt, lost, emit)
    if state.run is None or state.stopping:
        return
    slot = state.pool.slots[event.worker]
    if slot.fruitless <= state.config.max_relaunches:
        emit(LaunchWorker(slot.worker, slot.epoch + 1))
    elif not state.pool.alive():
        _stop(
            state,
            f"every worker was lost {slot.fruitless} times in a row; the last reason: {event.reason}",
            "WorkersLostError",
            emit,
        )


def _lose(state: StudyState, attempt: Attempt, reason: str, emit: Emit) -> None:
    """Put a trial back whose attempt was lost; one under which too many are lost is to blame itself."""
    trial = state.trials[attempt.trial]
    if trial.losses > state.config.max_losses:
        emit(MoveTrial(trial.id, TrialState.FAILED, f"{trial.losses} attempts were lost; the last one: {reason}"))
    else:
        emit(MoveTrial(trial.id, TrialState.WAITING, reason))


def _judge(state: StudyState, event: Reported, emit: Emit) -> None:
    attempt = state.attempts[event.lease.number]
    trial = state.trials[attempt.trial]
    if attempt.is_closed or attempt.resource != event.resource or trial.resource != event.resource:
        return
    reason = state.scheduler.judge(trial.id, event.resource)
    if reason is not None:
        emit(StopTraining(event.lease, reason))
        emit(MoveTrial(trial.id, TrialState.STOPPED, reason))


def _settle(state: StudyState, attempt: Attempt, emit: Emit) -> None:
    """Close an attempt whose training has ended and whose checkpoint, if it has one, is durable."""
    if attempt.end is None or attempt.is_closed:
        return
    trial = state.trials[attempt.trial]
    verdict = verdict_on_end(attempt, trial, state.max_resource, state.config.metric, state.metric_names)
    match verdict.to:
        case None:
            return
        case TrialState.FAILED:
            if attempt.end.error_kind == "checkpoint":
                _lose(state, attempt, verdict.reason, emit)
            elif attempt.end.outcome is Outcome.FAILED and not verdict.stops_run:
                _fail_or_retry(state, attempt, verdict.reason, verdict.detail, emit)
            else:
                emit(MoveTrial(trial.id, TrialState.FAILED, verdict.reason, verdict.detail))
                if verdict.stops_run:
                    _stop(state, verdict.reason, verdict.stops_run, emit)
        case TrialState.WAITING:
            emit(MoveTrial(trial.id, TrialState.WAITING, state.stopping or verdict.reason))
        case _:
            emit(MoveTrial(trial.id, verdict.to, verdict.reason))


def _fail_or_retry(state: StudyState, attempt: Attempt, reason: str, detail: str, emit: Emit) -> None:
    trial = state.trials[attempt.trial]
    tries = state.config.max_failures + 1
    if trial.failures < tries:
        words = f"attempt {trial.failures} of {tries} failed: {reason}"
        emit(MoveTrial(trial.id, TrialState.WAITING, words, detail))
    else:
        emit(MoveTrial(trial.id, TrialState.FAILED, reason, detail))


def _stop(state: StudyState, reason: str, kind: str, emit: Emit) -> None:
    emit(StopRun(reason, kind))
    for attempt in list(state.attempts.values()):
        if attempt.is_training:
            emit(StopTraining(attempt.lease, reason))


def fill(state: StudyState, emit: Emit) -> None:
    """Give work to idle workers while there are both."""
    while state.run is not None and not state.stopping:
        worker = state.pool.first_idle()
        if worker is None:
            return
        trial = _next_trial(state, emit)
        if trial is None:
            return
        emit(Assign(_work_for(state, trial, worker)))


def _next_trial(state: StudyState, emit: Emit) -> Trial | None:
    """Return what a free worker should train: what waits, else a promotion, else a new trial; None: nothing now."""
    if not state.waiting and not _promote_next(state, emit) and _may_create(state):
        _create(state, emit)
        if state.is_exhausted:
            _promote_next(state, emit)
    first = next(iter(state.waiting), None)
    return None if first is None else state.trials[first]


def _promote_next(state: StudyState, emit: Emit) -> bool:
    promotion = state.scheduler.next_promotion()
    if promotion is not None:
        _promote(promotion, emit)
    return promotion is not None


def _promote(promotion: Promotion, emit: Emit) -> None:
    emit(Promote(promotion.trial, promotion.from_resource, promotion.to_resource, promotion.reason))


def _may_create(state: StudyState) -> bool:
    if state.run is None or state.is_exhausted:
        return False
    limit = state.run.num_trials
    return (limit is None or len(state.trials) < limit) and state.scheduler.may_create(TrialId(len(state.trials)))


def _create(state: StudyState, emit: Emit) -> None:
    try:
        params = state.searcher.propose(state.proposals)
    except SpaceError as error:
        _stop(state, str(error), "SpaceError", emit)
        return
    if params is None:
        emit(EndProposals(f"the searcher has no more than {state.proposals} proposals"))
        return
    trial = TrialId(len(state.trials))
    target = state.scheduler.first_target(trial)
    emit(CreateTrial(trial, params, trial_node(state.root, params, trial), target, state.proposals))


def _work_for(state: StudyState, trial: Trial, worker: WorkerId) -> Work:
    lease = Lease(state.next_lease, worker, state.pool.slots[worker].epoch)
    start = trial.checkpoint.resource if trial.checkpoint is not None else 0
    stage = Stage(
        node=trial.node,
        params=trial.params,
        trials=(trial.id,),
        seed=state.config.seed,
        start=start,
        stop=trial.target,
        max_resource=state.max_resource,
        save=trial.target is not None,
        save_every=state.config.save_every,
    )
    return Work(lease, (Lane((stage,), trial.checkpoint),))


def _is_anything_left(state: StudyState) -> bool:
    length = state.searcher.length()
    may_create = _may_create(state) and (length is None or state.proposals < length)
    return bool(state.waiting) or may_create or state.scheduler.next_promotion() is not None


def conclude(state: StudyState, emit: Emit) -> None:
    """End the run when nothing runs and nothing is left, or when it was asked to stop and everything has."""
    if state.run is None or state.attempts:
        return
    if not state.stopping and _is_anything_left(state):
        return
    if not state.stopping:
        promotion = state.scheduler.closing_promotion()
        if promotion is not None:
            _promote(promotion, emit)
            fill(state, emit)
            return
    for slot in state.pool.alive():
        emit(DismissWorker(slot.worker, slot.epoch, state.stopping or "nothing is left to train"))
    reason = state.stopping or "everything that was asked for is trained"
    emit(EndRun(reason, state.stopping_kind, is_complete=not state.stopping))
