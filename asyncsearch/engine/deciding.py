"""Decides the actions that follow from facts. Pure; see ``engine.handling`` for the rules.

Every function reads the state and emits actions; ``emit`` applies each at once, so the next read sees its effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asyncsearch.actions import DismissWorker, MoveTrial
from asyncsearch.engine.affected import dependents_of, is_at_target, is_to_be_evaluated, trials_awaiting, trials_unsaved
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.filling import is_anything_left
from asyncsearch.engine.moving import (
    fail_or_retry,
    inherit_known,
    inherit_news,
    move_by,
    requeue,
    requeue_lost,
    requeue_unsaved,
    settle_at_target,
    wait,
)
from asyncsearch.engine.next_trials import compare, save_best, spare_save
from asyncsearch.engine.sizing.idle_slots import release
from asyncsearch.engine.sizing.packs import packs_of
from asyncsearch.engine.sizing.share import count_launchable, cut_short, excess, give_back, launch, relaunch
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.stop_decisions import end_study_by_rule, end_trial_by_rule
from asyncsearch.engine.stopping import Emit, judge, judges, stop_all, stop_run, stop_training
from asyncsearch.engine.transitions import Verdict, missing_metric, verdict_on_end, verdict_on_failure
from asyncsearch.events import (
    KILLED,
    AnyEvent,
    CheckpointCommitted,
    CheckpointFailed,
    DriverStarted,
    Imported,
    Learned,
    LearnedPacked,
    Outcome,
    Reported,
    RuleDue,
    RunRequested,
    ShareChanged,
    StopRequested,
    TrainingEnded,
    TrialTimedOut,
    WorkerLost,
    WorkersIdled,
    WorkRefused,
)
from asyncsearch.ids import worker_name
from asyncsearch.trial import Trial, TrialState


def respond(state: StudyState, event: AnyEvent, subscribers: list[Trial], emit: Emit) -> None:
    """Emit the actions that follow from a fact; ``subscribers`` are those of a report."""
    if type(event) is Reported:
        if subscribers:
            _respond_to_report(state, event, subscribers, emit)
    elif type(event) in _BY_KIND:
        _BY_KIND[type(event)](state, event, emit)


def _respond_to_start(state: StudyState, _event: DriverStarted, emit: Emit) -> None:
    for number in list(state.open_attempts):
        wait(state, state.trials[number], "its driver ended", emit)


def _respond_to_run(state: StudyState, _event: RunRequested, emit: Emit) -> None:
    end_study_by_rule(state, state.times.seen_s, emit)
    if state.stopping:
        return
    if is_anything_left(state) or state.scheduler.closing_promotion() is not None:
        launch(state, emit)


def _respond_to_share(state: StudyState, event: ShareChanged, emit: Emit) -> None:
    if not state.stopping:
        launch(state, emit)
        give_back(state, emit)
        cut_short(state, emit, is_urgent=event.is_urgent)


def _respond_to_time(state: StudyState, _event: RuleDue, emit: Emit) -> None:
    for number in list(state.open_attempts) if state.config.stop_trial_when is not None else ():
        end_trial_by_rule(state, state.trials[number], emit)


def _respond_to_news(state: StudyState, event: Learned, emit: Emit) -> None:
    for number in state.plan.subscribers_at(event.node, 0):
        if state.trials[number].state is TrialState.WAITING:
            inherit_news(state, state.trials[number], emit)


def _respond_to_refusal(state: StudyState, event: WorkRefused, emit: Emit) -> None:
    refused = [number for attempt in state.attempts_named(event.lease, event.lane) for number in attempt.trials]
    for number in refused:
        emit(MoveTrial(number, TrialState.WAITING, event.reason))
        inherit_news(state, state.trials[number], emit)


def _respond_to_timeout(state: StudyState, event: TrialTimedOut, emit: Emit) -> None:
    for attempt in state.attempts_timed_out(event):
        if not attempt.is_training:
            continue
        reason = "it ran longer than trial_timeout"
        if attempt.lanes > 1:
            reason += f" together with others ({attempt.lanes} trainings): it is tried alone"
            for number in list(attempt.trials):
                requeue_lost(state, state.trials[number], reason, emit)
        else:
            for trial in dependents_of(state, attempt, attempt.next_unit):
                fail_or_retry(state, trial, Verdict(TrialState.FAILED, reason), emit)
            requeue(state, attempt, emit)
        stop_training(attempt, reason, emit)


def _respond_to_loss(state: StudyState, event: WorkerLost, emit: Emit) -> None:
    lost = f"{worker_name(event.worker)} was lost: {event.reason}"
    for attempt in [attempt for attempt in state.attempts.values() if attempt.is_lost]:
        for number in list(attempt.trials):
            requeue_lost(state, state.trials[number], lost, emit)
    if state.run is None or state.stopping:
        return
    slot = state.pool.slots[event.worker]
    if slot.fruitless <= state.config.max_relaunches:
        relaunch(state, slot.worker, emit)
    elif count_launchable(state):
        launch(state, emit)
    elif not state.pool.alive() and not state.pool.released:
        reason = f"every worker was lost {slot.fruitless} times in a row; the last reason: {event.reason}"
        stop_run(state, reason, "WorkersLostError", emit)


def _respond_to_report(state: StudyState, event: Reported, subscribers: list[Trial], emit: Emit) -> None:
    """Judge the subscribers, and settle those whose target is here and that waited only for the report."""
    resource = event.resource
    if judges(state):
        for trial in subscribers:
            if trial.resource == resource:
                judge(state, trial, emit)
    attempt = state.attempts[event.lease.number + event.lane]
    if event.is_awaited and state.best_saved.size:
        save_best(state, attempt, subscribers, emit)
    compare(state, attempt, resource, emit, keeps_worker=not excess(state))
    spare_save(state, attempt, resource, emit)
    if state.config.can_evaluate:
        node = attempt.node_at(resource)
        for number in state.plan.requesters_at(node, resource):
            trial = state.trials[number]
            if trial.state is TrialState.WAITING and is_at_target(state, trial):
                settle_at_target(state, trial, emit)


def _respond_to_commit(state: StudyState, event: CheckpointCommitted, emit: Emit) -> None:
    """Settle the trials that waited for this checkpoint; at the end of a batch, its training must have ended too."""
    number, checkpoint = event.lease.number + event.lane, event.checkpoint
    attempt = state.attempts.get(number)
    end = attempt.end if attempt is not None and attempt.has_ended_well and attempt.is_durable else None
    # The attempt's own trials are settled at its end, which gives the reason.
    is_end = attempt is not None and attempt.is_training and checkpoint.resource >= attempt.stop
    # A training may end without a checkpoint while an earlier one of it, which others wait for, is still being stored.
    waiting = state.plan.requesters_at(checkpoint.node, checkpoint.resource)
    for trial in waiting if end is None or checkpoint.resource < end.resource else ():
        if not (is_end and state.open_attempts.get(trial) == number):
            settle_at_target(state, state.trials[trial], emit)
    if attempt is not None and end is not None:
        _settle(state, attempt, end, emit)
    elif attempt is not None and attempt.is_over:
        requeue(state, attempt, emit)


def _respond_to_failed_commit(state: StudyState, event: CheckpointFailed, emit: Emit) -> None:
    attempt = state.attempts.get(event.lease.number + event.lane)
    if attempt is None:
        return
    reason = f"its checkpoint at {event.checkpoint.resource} could not be stored: {event.error}"
    for trial in trials_awaiting(state, attempt, event.checkpoint):
        if event.error_kind:  # the trial is not to blame
            wait(state, trial, reason, emit)
        else:
            fail_or_retry(state, trial, Verdict(TrialState.FAILED, reason, event.error), emit)
    if attempt.is_over:
        requeue(state, attempt, emit)


def _respond_to_end(state: StudyState, end: TrainingEnded, emit: Emit) -> None:
    attempt = state.attempts.get(end.lease.number + end.lane)
    if attempt is None or attempt.is_closed:
        return
    match end.outcome:
        case Outcome.FAILED:
            _respond_to_failure(state, attempt, end, emit)
        case Outcome.STOPPED:
            requeue_unsaved(state, attempt, end, state.stopping or "it was interrupted", emit)
        case Outcome.REACHED | Outcome.RETURNED:
            _settle(state, attempt, end, emit)


def _respond_to_failure(state: StudyState, attempt: Attempt, end: TrainingEnded, emit: Emit) -> None:
    verdict = verdict_on_failure(end)
    if end.error_kind == "checkpoint":
        _respond_to_damage(state, attempt, verdict.reason, emit)
    elif end.error_kind == KILLED:
        lost = f"{verdict.reason.rstrip('.')}, on {worker_name(end.lease.worker)}"
        for trial in trials_unsaved(state, attempt, end):
            requeue_lost(state, trial, lost, emit, verdict.detail)
    elif attempt.is_too_large:
        most = packs_of(state, attempt).memory
        words = f"{attempt.lanes} trainings had too little memory together; {most} are tried next"
        requeue_unsaved(state, attempt, end, words, emit)
    elif verdict.stops_run:
        for trial in dependents_of(state, attempt, attempt.next_unit):
            emit(MoveTrial(trial.id, TrialState.FAILED, verdict.reason, verdict.detail))
        if state.is_agreed(verdict.stops_run):
            stop_run(state, verdict.reason, verdict.stops_run, emit)
    else:
        for trial in dependents_of(state, attempt, attempt.next_unit):
            fail_or_retry(state, trial, verdict, emit)
        requeue_unsaved(state, attempt, end, verdict.reason, emit)
        _end_hopeless_run(state, end, emit)


def _respond_to_damage(state: StudyState, attempt: Attempt, reason: str, emit: Emit) -> None:
    """Let the trials of a damaged checkpoint wait; a store that damages one after the other ends the run."""
    damages = {number: state.damages.get(number, 0) for number in attempt.trials}
    for number in list(damages):
        wait(state, state.trials[number], reason, emit)
    worst = max(damages.values(), default=0)
    if worst <= state.config.max_losses or state.run is None or state.stopping:
        return
    words, lease = f"{worst} checkpoints of one trial were damaged", attempt.lease
    if state.is_agreed("StoreError"):
        stop_run(state, f"{words}; the last one: {reason}", "StoreError", emit)
    elif state.pool.is_current(lease.worker, lease.epoch) and not state.attempts_of(lease.worker):
        emit(DismissWorker(lease.worker, lease.epoch, f"it alone says that {words}"))


def _end_hopeless_run(state: StudyState, end: TrainingEnded, emit: Emit) -> None:
    """End a run in which every trial fails at one line, unless one trains that is beyond where this one failed."""
    if state.run is None or state.stopping or not state.config.ends_on_failures:
        return
    reason = state.repeated.reason(end, state.run.parallelism, state.voices)
    if reason and not any(one.is_training and one.resource > end.resource for one in state.attempts.values()):
        stop_run(state, reason, "TrialsFailedError", emit)


def _settle(state: StudyState, attempt: Attempt, end: TrainingEnded, emit: Emit) -> None:
    """Settle the trials whose target or end a training reached; the attempt's other trials wait again."""
    if not attempt.is_durable:
        if attempt.is_over:
            requeue(state, attempt, emit)
        return
    if attempt.is_evaluation:
        _settle_evaluation(state, attempt, emit)
        return
    # Subscribers include the trials that were saved exactly there.
    find = state.plan.subscribers_at if attempt.has_returned_early else state.plan.requesters_at
    for trial in [state.trials[number] for number in find(attempt.node_at(end.resource), end.resource)]:
        if inherit_known(state, trial, emit):
            continue
        if trial.id not in attempt.trials and end.checkpoint_resource is None and not attempt.has_returned_early:
            continue  # it waits since this checkpoint could not be stored, and others train on under the lease
        if is_to_be_evaluated(state, trial) and not attempt.has_returned_early:
            settle_at_target(state, trial, emit)
            continue
        is_spared = attempt.is_spared
        verdict = verdict_on_end(end, trial, state.max_resource, state.reporting, is_spared=is_spared)
        move_by(state, trial, verdict, emit)
    requeue(state, attempt, emit)


def _settle_evaluation(state: StudyState, attempt: Attempt, emit: Emit) -> None:
    """Settle the trials whose target was evaluated, or let them fail if the metric was not reported."""
    metric = state.config.metric
    reason = f"it was evaluated at {attempt.stop} and {metric!r} was not reported"
    for trial in dependents_of(state, attempt, attempt.stop):
        never = missing_metric(trial, state.reporting)
        if never is not None:
            move_by(state, trial, never, emit)
        else:
            fail_or_retry(state, trial, Verdict(TrialState.FAILED, reason), emit)
    for number in state.plan.requesters_at(attempt.node_at(attempt.stop), attempt.stop):
        settle_at_target(state, state.trials[number], emit)
    requeue(state, attempt, emit)


_BY_KIND: dict[type[AnyEvent], Callable[[StudyState, Any, Emit], None]] = {
    CheckpointCommitted: _respond_to_commit,
    TrainingEnded: _respond_to_end,
    CheckpointFailed: _respond_to_failed_commit,
    DriverStarted: _respond_to_start,
    RunRequested: _respond_to_run,
    ShareChanged: _respond_to_share,
    WorkerLost: _respond_to_loss,
    WorkersIdled: release,
    TrialTimedOut: _respond_to_timeout,
    StopRequested: lambda state, event, emit: stop_all(state, event.reason, emit),
    RuleDue: _respond_to_time,
    Learned: _respond_to_news,
    LearnedPacked: _respond_to_news,
    Imported: _respond_to_news,
    WorkRefused: _respond_to_refusal,
}
"""From the other kinds it only follows that free workers get work. A ``match`` would test one kind after another."""
