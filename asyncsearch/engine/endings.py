"""Applies the ends of work: of trainings, commits and losses, and their claims about one trial or all of them. Pure.

``learning`` calls these functions by kind of event. One worker's word ends no search: ``RepeatedFailures.is_agreed``
says who must agree.
"""

from __future__ import annotations

from asyncsearch.engine.affected import dependents_of, subscribers_of, trials_awaiting, trials_unsaved
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.repeated_failures import after_loss
from asyncsearch.engine.sizing.packs import packs_of
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.transitions import FATAL_KINDS
from asyncsearch.events import (
    KILLED,
    CheckpointCommitted,
    CheckpointFailed,
    Outcome,
    TrainingEnded,
    TrialTimedOut,
    WorkerLost,
    WorkRefused,
)
from asyncsearch.ids import WorkerId
from asyncsearch.plan.base_plan import Batch
from asyncsearch.trial import Trial


def learn_end(state: StudyState, event: TrainingEnded, now: float) -> None:
    """Apply the end of a training, once, and blame the trials or the worker where it failed."""
    attempt = state.attempts[event.lease.number + event.lane]
    if attempt.end is not None:
        return
    attempt.end = event
    if state.stop_facts is not None:
        state.stop_facts.tick(attempt.trials, attempt.number, attempt.since_s, now)
    _note_claims(state, attempt, event)
    if event.resource > attempt.resource:
        progress(state, attempt, event.resource, subscribers_of(state, attempt, event.resource))
    if attempt.lanes > 1:
        units = packs_of(state, attempt).units
        units[attempt.lanes] = units.get(attempt.lanes, 0) + event.resource - attempt.batch.stages[0].start
    if event.error_kind == KILLED or attempt.is_too_large:
        _shut_lease(state, attempt)
    if event.outcome is Outcome.FAILED and not attempt.is_closed:
        if event.error_kind == "checkpoint":
            _forget_checkpoint(state, attempt)
        elif event.error_kind == KILLED:
            _count_losses(state, attempt, trials_unsaved(state, attempt, event))
        elif attempt.is_too_large:
            _halve_packs(state, attempt)
        else:
            _blame(state, attempt)
            if any(
                trial.failures > state.config.max_failures for trial in dependents_of(state, attempt, attempt.next_unit)
            ):
                state.repeated.add(event, state.pool.workers_of(event.lease.worker))
    elif attempt.is_evaluation and attempt.has_ended_well:
        _blame(state, attempt)  # it did not report the metric, and would not report it the next time
    state.repeated.has_trained |= event.outcome in (Outcome.REACHED, Outcome.RETURNED)
    if attempt.has_returned_early and not attempt.is_closed:
        state.plan.reports.end(attempt.node_at(event.resource), event.resource)
    is_unasked = event.outcome is Outcome.STOPPED and not attempt.is_stop_sent and not state.stopping
    if event.error_kind != KILLED and attempt.is_over and not is_unasked:  # a checkpoint that it still owes is not done
        state.pool.note_work(event.lease.worker)
    if state.pool.slots[event.lease.worker].lease == event.lease.number:
        state.pool.end_lane(event.lease.worker)
    _end_if_over(state, attempt)


def learn_commit(state: StudyState, event: CheckpointCommitted, _now: float) -> None:
    """Count a checkpoint as durable; the trials that need it continue from there."""
    attempt, checkpoint = state.attempts[event.lease.number + event.lane], event.checkpoint
    resource = checkpoint.resource
    if attempt.committed is None or resource > attempt.committed:
        attempt.committed = resource
    if attempt.settled is None or resource > attempt.settled:
        attempt.settled = resource
    state.add_checkpoint(checkpoint, attempt.number)
    if attempt.is_planned:
        # Beyond a cut no unit of the plan lies at the checkpoint, and others would wait for a boundary that was passed.
        state.plan.advance(attempt.number, resource)
    state.pool.hold(event.lease.worker, checkpoint)
    state.pool.note_work(event.lease.worker)
    state.usage.put(checkpoint, event.size_bytes)
    if state.best_saved.size:
        state.keep_best(attempt, checkpoint)
    if checkpoint not in state.references:
        state.unreachable[checkpoint] = None
    for trial in dependents_of(state, attempt, resource):
        if trial.checkpoint is None or trial.checkpoint.resource <= resource:
            state.repoint(trial, checkpoint)
    _end_if_over(state, attempt)


def learn_failed_commit(state: StudyState, event: CheckpointFailed, _now: float) -> None:
    """Count a checkpoint that was not stored as a failure of its trials, unless the store is at fault."""
    attempt = state.attempts[event.lease.number + event.lane]
    attempt.settled = max(event.checkpoint.resource, attempt.settled or 0)
    for trial in [] if event.error_kind else trials_awaiting(state, attempt, event.checkpoint):
        trial.failures += 1
    if not event.error_kind:
        state.pool.note_work(event.lease.worker)
    _end_if_over(state, attempt)


def learn_loss(state: StudyState, event: WorkerLost, _now: float) -> None:
    """End the attempts of a worker that is gone, and count the loss for their trials."""
    attempts = state.attempts_with(event.worker)
    state.pool.lose(event.worker)
    state.pool.slots[event.worker].fruitless += 1
    is_owing = any(attempt.is_committing for attempt in attempts)  # a lost one is over, and owes nothing any more
    for attempt in attempts:
        lose(state, attempt)
        trials = [state.trials[number] for number in attempt.trials]
        _count_losses(state, attempt, trials, lost=event.worker, is_owing=is_owing)


def learn_timeout(state: StudyState, event: TrialTimedOut, _now: float) -> None:
    """Blame the trial that took too long; in a pack, nobody knows which one hangs."""
    for attempt in state.attempts_timed_out(event):
        _shut_lease(state, attempt)
        if attempt.is_training and attempt.lanes > 1:
            _count_losses(state, attempt, [state.trials[number] for number in attempt.trials], has_hung=True)
        elif attempt.is_training:
            _blame(state, attempt)


def learn_refusal(state: StudyState, event: WorkRefused, _now: float) -> None:
    """End a lease, or a lane, that no worker ever had, without blaming a trial or a worker."""
    attempts = state.attempts_named(event.lease, event.lane)
    if state.pool.slots[event.lease.worker].lease == event.lease.number:
        if event.lane is None:
            state.pool.free(event.lease.worker)
        elif attempts and attempts[0].end is None:
            state.pool.end_lane(event.lease.worker)
    for attempt in attempts:
        lose(state, attempt)
    for node in event.busy:
        state.block(node)


def progress(state: StudyState, attempt: Attempt, resource: int, subscribers: list[Trial]) -> None:
    """Attribute the units since an attempt's last event to the first trial that needs them."""
    if not attempt.is_evaluation:
        for trial in subscribers:
            if trial.checkpoint is None or trial.checkpoint.resource < resource:
                trial.trained += resource - attempt.resource
                if state.stop_facts is not None:
                    state.stop_facts.study.units += resource - attempt.resource
                break
    attempt.resource = resource


def lose(state: StudyState, attempt: Attempt) -> None:
    """Drop an attempt whose worker is gone: no further event comes under its lease."""
    attempt.is_lost = True
    state.leave_plan(attempt)
    state.tidy(attempt)


def _end_if_over(state: StudyState, attempt: Attempt) -> None:
    """Requeue the units that a lease has not trained once it is over."""
    if attempt.is_over:
        state.leave_plan(attempt)
        state.tidy(attempt)


def _note_claims(state: StudyState, attempt: Attempt, end: TrainingEnded) -> None:
    """Note the claims of an end that would concern every trial."""
    workers, repeated = state.pool.workers_of(end.lease.worker), state.repeated
    if end.outcome is Outcome.FAILED and end.error_kind in (*FATAL_KINDS, "checkpoint"):
        repeated.claim(FATAL_KINDS.get(end.error_kind, "StoreError"), workers)
    if end.outcome is Outcome.REACHED and end.checkpoint_resource is None and not attempt.is_spared:
        repeated.claim("CannotPauseError", workers)
    has_ended = end.outcome in (Outcome.REACHED, Outcome.RETURNED)
    if has_ended and any(not state.trials[number].value_resource for number in attempt.trials):
        repeated.claim("MetricNotReportedError", workers)


def _count_losses(
    state: StudyState,
    attempt: Attempt,
    trials: list[Trial],
    *,
    lost: WorkerId | None = None,
    has_hung: bool = False,
    is_owing: bool = False,
) -> None:
    """Count a lost worker as a loss of trials, unless the run is ending: then nothing waits for its workers.

    ``lost`` is the worker that is gone, of a gang any rank. None stands for the holder of the lease, which lives on.
    A worker that still owed the checkpoint of a training that had ended may be to blame itself: ``is_owing``.
    """
    is_shared, most = attempt.lanes > 1, state.config.max_losses
    worker = attempt.lease.worker if lost is None else lost
    for trial in [] if state.stopping else trials:
        trial.losses += 1
        before = state.consecutive_losses.get(trial.id)
        losses = after_loss(before, trial.resource, is_shared=is_shared, has_hung=has_hung)
        state.consecutive_losses[trial.id] = losses
        if losses.is_charged(most) and not is_owing:
            state.pool.slots[worker].fruitless = 0  # the trial is to blame, not the worker


def _blame(state: StudyState, attempt: Attempt) -> None:
    """Count the failure of an attempt's last unit as a failure of each trial that needs the unit."""
    for trial in dependents_of(state, attempt, attempt.next_unit):
        trial.failures += 1


def _shut_lease(state: StudyState, attempt: Attempt) -> None:
    """Let no lane join any more: the process of all lanes ends, or hangs, and would take those that join along."""
    for other in state.attempts_under(attempt.lease) if attempt.is_open else ():
        other.is_shut = True


def _halve_packs(state: StudyState, attempt: Attempt) -> None:
    """Let packs of this group have half the lanes of one that had too little memory."""
    known, half = packs_of(state, attempt), attempt.lanes // 2
    known.memory = half if known.memory is None else min(half, known.memory)


def _forget_checkpoint(state: StudyState, attempt: Attempt) -> None:
    """Forget an unreadable checkpoint, which is not a failure: training restarts from the nearest good checkpoint."""
    for number in attempt.trials:
        state.damages[number] = state.damages.get(number, 0) + 1
    load = attempt.batch.load
    if load is None:
        return
    state.pool.give_up(load)
    state.plan.remove_checkpoint(load)
    for trial in state.trials:
        if trial.checkpoint == load:
            state.repoint(trial, state.plan.nearest(trial.steps, load.resource))
    for other in state.attempts.values():
        if other.batch.load == load:
            other.batch = Batch(None, other.batch.stages)
            state.release(load)
    state.unreachable[load] = None
