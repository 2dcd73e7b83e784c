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
    CutWork,
    DismissWorker,
    EndProposals,
    EndRun,
    Inherit,
    LaunchWorker,
    MoveTrial,
    Promote,
    SaveAt,
    StopRun,
    StopTraining,
)
from asyncsearch.engine.attempts import Attempt, Verdict, verdict_on_arrival, verdict_on_end, verdict_on_failure
from asyncsearch.engine.pool import SlotState
from asyncsearch.errors import SpaceError
from asyncsearch.events import (
    AnyEvent,
    CheckpointCommitted,
    CheckpointFailed,
    DriverStarted,
    Learned,
    NodeFreed,
    Outcome,
    Reported,
    RunRequested,
    StopRequested,
    TrainingEnded,
    TrialTimedOut,
    WorkerAttached,
    WorkerLost,
    WorkRefused,
)
from asyncsearch.ids import CheckpointRef, Lease, TrialId, WorkerId, worker_name
from asyncsearch.plan.keys import UNBOUNDED, path
from asyncsearch.plan.plan import Batch
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
            for number in list(state.open_attempts):
                _wait(state, state.trials[number], "its driver ended", emit)
        case RunRequested():
            if _is_anything_left(state) or state.scheduler.closing_promotion() is not None:
                _launch(state, event.parallelism, emit)
        case WorkerLost():
            _respond_to_loss(state, event, emit)
        case Reported():
            _judge(state, event, emit)
        case TrainingEnded():
            attempt_or_none = state.attempts.get(event.lease.number)
            if attempt_or_none is not None:
                _respond_to_end(state, attempt_or_none, event, emit)
        case CheckpointCommitted():
            _respond_to_commit(state, event, emit)
        case CheckpointFailed():
            _respond_to_failed_commit(state, event, emit)
        case TrialTimedOut():
            attempt = state.attempts[event.lease.number]
            if attempt.is_training:
                for trial in state.readers(attempt, attempt.next_unit):
                    _fail_or_retry(state, trial, Verdict(TrialState.FAILED, "it ran longer than trial_timeout"), emit)
                _hand_back(state, attempt, emit)
                emit(StopTraining(event.lease, "it ran longer than trial_timeout"))
        case StopRequested():
            for attempt in list(state.attempts.values()):
                if attempt.is_training:
                    emit(StopTraining(attempt.lease, event.reason))
        case Learned():
            for number in state.plan.readers_at(event.node, 0):
                if state.trials[number].state is TrialState.WAITING:
                    _hear(state, state.trials[number], emit)
        case WorkRefused():
            refused = state.attempts.get(event.lease.number)
            for number in [] if refused is None else list(refused.trials):
                emit(MoveTrial(number, TrialState.WAITING, event.reason))
                _hear(state, state.trials[number], emit)
        case NodeFreed():
            pass


def _launch(state: StudyState, parallelism: int, emit: Emit) -> None:
    for number in range(parallelism):
        slot = state.pool.slot(WorkerId(number))
        if slot.state is SlotState.GONE:
            emit(LaunchWorker(slot.worker, slot.epoch + 1))


def _respond_to_loss(state: StudyState, event: WorkerLost, emit: Emit) -> None:
    lost = f"{worker_name(event.worker)} was lost: {event.reason}"
    for attempt in state.attempts_of(event.worker):
        for number in list(attempt.trials):
            _lose(state, state.trials[number], lost, emit)
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


def _lose(state: StudyState, trial: Trial, reason: str, emit: Emit) -> None:
    """Put a trial back whose attempt was lost; one under which too many are lost is to blame itself."""
    if trial.losses > state.config.max_losses:
        emit(MoveTrial(trial.id, TrialState.FAILED, f"{trial.losses} attempts were lost; the last one: {reason}"))
    else:
        _wait(state, trial, reason, emit)


def _hand_back(state: StudyState, attempt: Attempt, emit: Emit) -> None:
    """Let the trials wait that an attempt will not bring to their targets."""
    for number in list(attempt.trials):
        _wait(state, state.trials[number], state.stopping or "its work was handed back", emit)


def _judge(state: StudyState, event: Reported, emit: Emit) -> None:
    attempt = state.attempts[event.lease.number]
    if attempt.resource != event.resource:
        return
    for trial in state.readers(attempt, event.resource):
        if trial.resource == event.resource:
            _judge_one(state, trial, emit)


def _judge_one(state: StudyState, trial: Trial, emit: Emit) -> bool:
    reason = state.scheduler.judge(trial.id, trial.resource)
    if reason is not None:
        emit(MoveTrial(trial.id, TrialState.STOPPED, reason))
    return reason is not None


def _respond_to_commit(state: StudyState, event: CheckpointCommitted, emit: Emit) -> None:
    """Settle those that were on their way to this checkpoint; at the end of a batch its own end must be known too."""
    attempt, checkpoint = state.attempts.get(event.lease.number), event.checkpoint
    if attempt is not None and attempt.has_ended_well and attempt.is_durable and attempt.end is not None:
        _settle(state, attempt, attempt.end, emit)
        return
    # Those whom the attempt is to bring there learn from its end how it came there; nobody else will ask it.
    is_end = attempt is not None and attempt.is_training and checkpoint.resource >= attempt.stop
    for number in state.plan.targets_at(checkpoint.node, checkpoint.resource):
        if not (is_end and state.open_attempts.get(number) == event.lease.number):
            _arrive(state, state.trials[number], "", emit)
    if attempt is not None and attempt.is_over:
        _hand_back(state, attempt, emit)


def _arrive(state: StudyState, trial: Trial, words: str, emit: Emit) -> None:
    if _catch_up(state, trial, emit):
        return
    verdict = verdict_on_arrival(trial, state.max_resource, state.config.metric, state.metric_names, words)
    _move_by(state, trial, verdict, emit)


def _wait(state: StudyState, trial: Trial, reason: str, emit: Emit, detail: str = "") -> None:
    """Let a trial wait again, unless all that it waits for is trained and durable."""
    emit(MoveTrial(trial.id, TrialState.WAITING, reason, detail))
    before = trial.resource
    if _catch_up(state, trial, emit):
        return
    if trial.resource > before:
        _answer(state, trial, emit)
    elif _is_at_target(trial):
        _arrive(state, trial, "", emit)


def _is_at_target(trial: Trial) -> bool:
    target = trial.target
    return target is not None and trial.checkpoint == CheckpointRef(trial.node_at(target), target)


def _respond_to_failed_commit(state: StudyState, event: CheckpointFailed, emit: Emit) -> None:
    attempt, resource = state.attempts.get(event.lease.number), event.checkpoint.resource
    if attempt is None:
        return
    reason = f"its checkpoint at {resource} could not be stored: {event.error}"
    for number in list(attempt.trials):
        if state.trials[number].target == resource:
            _fail_or_retry(state, state.trials[number], Verdict(TrialState.FAILED, reason, event.error), emit)
    if attempt.is_over:
        _hand_back(state, attempt, emit)


def _respond_to_end(state: StudyState, attempt: Attempt, end: TrainingEnded, emit: Emit) -> None:
    if attempt.is_closed:
        return
    match end.outcome:
        case Outcome.FAILED:
            _respond_to_failure(state, attempt, end, emit)
        case Outcome.STOPPED:
            _hand_back_unsaved(state, attempt, end, state.stopping or "it was interrupted", emit)
        case Outcome.REACHED | Outcome.RETURNED:
            _settle(state, attempt, end, emit)


def _respond_to_failure(state: StudyState, attempt: Attempt, end: TrainingEnded, emit: Emit) -> None:
    verdict = verdict_on_failure(end)
    if end.error_kind == "checkpoint":
        for number in list(attempt.trials):
            _lose(state, state.trials[number], verdict.reason, emit)
    elif verdict.stops_run:
        for trial in state.readers(attempt, attempt.next_unit):
            emit(MoveTrial(trial.id, TrialState.FAILED, verdict.reason, verdict.detail))
        _stop(state, verdict.reason, verdict.stops_run, emit)
    else:
        for trial in state.readers(attempt, attempt.next_unit):
            _fail_or_retry(state, trial, verdict, emit)
        _hand_back_unsaved(state, attempt, end, verdict.reason, emit)


def _hand_back_unsaved(state: StudyState, attempt: Attempt, end: TrainingEnded, reason: str, emit: Emit) -> None:
    """Let the trials wait of an attempt that ended early, but for those whose checkpoint is still on its way."""
    for number in list(attempt.trials):
        trial = state.trials[number]
        if attempt.is_over or trial.target is None or trial.target != end.checkpoint_resource:
            _wait(state, trial, reason, emit)


def _settle(state: StudyState, attempt: Attempt, end: TrainingEnded, emit: Emit) -> None:
    """Move those on whose target a training ended, or whose end it was; the others of its trials wait again."""
    if not attempt.is_durable:
        if attempt.is_over:
            _hand_back(state, attempt, emit)
        return
    node = attempt.node_at(end.resource)
    if attempt.is_own_end:
        numbers = state.plan.readers_at(node, end.resource)  # those that were saved just there included
    else:
        numbers = state.plan.targets_at(node, end.resource)
    for trial in [state.trials[number] for number in numbers]:
        if _catch_up(state, trial, emit):
            continue
        verdict = verdict_on_end(end, trial, state.max_resource, state.config.metric, state.metric_names)
        _move_by(state, trial, verdict, emit)
    _hand_back(state, attempt, emit)


def _move_by(state: StudyState, trial: Trial, verdict: Verdict, emit: Emit) -> None:
    emit(MoveTrial(trial.id, verdict.to, verdict.reason, verdict.detail))
    if verdict.stops_run:
        _stop(state, verdict.reason, verdict.stops_run, emit)


def _fail_or_retry(state: StudyState, trial: Trial, verdict: Verdict, emit: Emit) -> None:
    tries = state.config.max_failures + 1
    if trial.failures >= tries:
        emit(MoveTrial(trial.id, TrialState.FAILED, verdict.reason, verdict.detail))
    elif trial.state is TrialState.RUNNING:
        words = f"attempt {trial.failures} of {tries} failed: {verdict.reason}"
        _wait(state, trial, words, emit, verdict.detail)


def _stop(state: StudyState, reason: str, kind: str, emit: Emit) -> None:
    emit(StopRun(reason, kind))
    for attempt in list(state.attempts.values()):
        if attempt.is_training:
            emit(StopTraining(attempt.lease, reason))


def adjust(state: StudyState, emit: Emit) -> None:
    """Tell workers what has changed about their work: nobody wants it, or its tail, or a new split lies in it."""
    while state.touched:
        number, reason = state.touched.popitem()
        attempt = state.attempts.get(number)
        if attempt is None or not attempt.is_training:
            continue
        wanted = state.plan.wanted_stop(number)
        if not wanted:
            emit(StopTraining(attempt.lease, reason))
            continue
        stop = max(wanted, attempt.resource)
        if stop < attempt.stop:
            emit(CutWork(attempt.lease, stop))
        for node, resource in state.plan.splits(number):
            if resource > attempt.resource:
                emit(SaveAt(attempt.lease, node, resource))


def fill(state: StudyState, emit: Emit) -> None:
    """Give work to idle workers while there are both."""
    while state.run is not None and not state.stopping:
        worker = state.pool.first_idle()
        if worker is None:
            return
        batch = _next_batch(state, emit)
        if batch is None:
            return
        emit(Assign(_work_for(state, batch, worker)))


def _next_batch(state: StudyState, emit: Emit) -> Batch | None:
    """Return what a free worker should train: what was begun, else a promotion, else a new trial; None: nothing now."""
    if state.config.look_ahead:
        _look_ahead(state, emit)
    while not state.stopping:
        batch = state.plan.next_batch()
        if batch is not None and _is_begun(state, batch):
            return batch
        if _promote_next(state, emit):
            continue
        if batch is not None:
            return batch
        if not _may_create(state):
            return None
        _create(state, emit)
    return None


def _is_begun(state: StudyState, batch: Batch) -> bool:
    """Whether somebody waits for it who was promoted, or had a worker before."""
    for stage in batch.stages:
        for number in stage.trials:
            if state.trials[number].is_begun:
                return True
    return False


def _look_ahead(state: StudyState, emit: Emit) -> None:
    """Create trials before a worker is free for them, so that the plan knows where their ways part."""
    while len(state.waiting) < state.config.look_ahead and _may_create(state) and not state.stopping:
        _create(state, emit)
    while state.scheduler.promotes_in_groups and not state.stopping and _promote_next(state, emit):
        pass


def _promote_next(state: StudyState, emit: Emit) -> bool:
    promotion = state.scheduler.next_promotion()
    if promotion is not None:
        _promote(state, promotion, emit)
    return promotion is not None


def _promote(state: StudyState, promotion: Promotion, emit: Emit) -> None:
    emit(Promote(promotion.trial, promotion.from_resource, promotion.to_resource, promotion.reason))
    _answer(state, state.trials[promotion.trial], emit)


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
    named = {**state.config.defaults, **params} if state.config.defaults else params
    steps = path(state.root, named, state.max_resource or UNBOUNDED, "" if state.config.share else str(trial))
    if not state.config.share:
        steps = steps[:1]  # a trial that shares nothing trains in one node, whatever changes on its way
    emit(CreateTrial(trial, params, steps[-1].node, target, state.proposals, steps if len(steps) > 1 else ()))
    _answer(state, state.trials[trial], emit)


def _answer(state: StudyState, trial: Trial, emit: Emit) -> None:
    """Let a trial read what is known already; it may arrive at its target by that."""
    if not state.config.share:
        return
    if _catch_up(state, trial, emit):
        return
    target = UNBOUNDED if trial.target is None else trial.target
    ended = state.known.ended(trial.steps)
    is_own_end = ended is not None and trial.resource >= ended
    if (trial.resource and (is_own_end or trial.resource >= target)) or _is_at_target(trial):
        words = ", as is known already"
        verdict = verdict_on_arrival(trial, state.max_resource, state.config.metric, state.metric_names, words)
        _move_by(state, trial, _at_own_end(trial, verdict, words) if is_own_end else verdict, emit)


def _catch_up(state: StudyState, trial: Trial, emit: Emit) -> bool:
    """Let a trial read what is known up to its target; return whether it was stopped by that."""
    if not state.config.share:
        return False
    target = UNBOUNDED if trial.target is None else trial.target
    for resource, _ in list(state.known.between(trial.steps, trial.resource, target)):
        emit(Inherit(trial.id, resource))
        if _judge_one(state, trial, emit):
            return True
    return False


def _hear(state: StudyState, trial: Trial, emit: Emit) -> None:
    """Let a waiting trial read what others have trained, if that is news to it."""
    before = trial.resource
    if _catch_up(state, trial, emit):
        return
    if trial.resource > before or _is_at_target(trial) or state.known.ended(trial.steps) is not None:
        _answer(state, trial, emit)


def _at_own_end(trial: Trial, verdict: Verdict, words: str) -> Verdict:
    if verdict.to is TrialState.FAILED:
        return verdict
    return Verdict(TrialState.COMPLETED, f"its function returned, at {trial.resource}{words}")


def _work_for(state: StudyState, batch: Batch, worker: WorkerId) -> Work:
    lease = Lease(state.next_lease, worker, state.pool.slots[worker].epoch)
    stages = tuple(
        Stage(
            node=planned.node,
            params=state.trials[planned.trials[0]].params,
            trials=planned.trials,
            seed=state.config.seed,
            start=planned.start,
            stop=None if planned.stop == UNBOUNDED else planned.stop,
            max_resource=state.max_resource,
            save=planned.stop != UNBOUNDED,
            save_every=state.config.save_every,
        )
        for planned in batch.stages
    )
    return Work(lease, (Lane(stages, batch.load),))


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
            _promote(state, promotion, emit)
            fill(state, emit)
            return
    for slot in state.pool.alive():
        emit(DismissWorker(slot.worker, slot.epoch, state.stopping or "nothing is left to train"))
    reason = state.stopping or "everything that was asked for is trained"
    emit(EndRun(reason, state.stopping_kind, is_complete=not state.stopping))
