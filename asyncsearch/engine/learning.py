"""Applies facts to the state, without decisions. Pure; see ``engine.handling`` for the rules."""

from __future__ import annotations

from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.consecutive_losses import after_loss
from asyncsearch.engine.repeated_failures import RepeatedFailures
from asyncsearch.engine.state import StudyState
from asyncsearch.events import (
    KILLED,
    AnyEvent,
    CheckpointCommitted,
    CheckpointFailed,
    DriverStarted,
    Imported,
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
from asyncsearch.ids import CheckpointRef
from asyncsearch.nonfinite import finite
from asyncsearch.plan.base_plan import Batch
from asyncsearch.trial import Trial


def learn(state: StudyState, event: AnyEvent, now: float) -> list[Trial]:
    """Apply a fact that is not stale; return the subscribers of a new report, so that they may be judged."""
    # The three of each decision come before the match, which takes 0.1 us for each class that an event is not of.
    if type(event) is Reported:
        return _learn_report(state, event, now)
    if type(event) is CheckpointCommitted:
        _learn_commit(state, event)
    elif type(event) is TrainingEnded:
        _learn_end(state, event)
    else:
        _learn_other(state, event, now)
    return []


def _learn_other(state: StudyState, event: AnyEvent, now: float) -> None:
    match event:
        case DriverStarted():
            state.times.end(state.times.seen_s, state.begun)  # the driver of a run in progress has died
            state.pool.clear()
            state.run, state.stopping, state.stopping_kind = None, "", ""
            state.unblock_all()
            for attempt in list(state.attempts.values()):
                _lose(state, attempt)
        case RunRequested():
            state.run, state.stopping, state.stopping_kind = event, "", ""
            state.repeated = RepeatedFailures()
            state.times.begin(now, state.begun)
            for listener in state.listeners:
                listener.run_requested(event.num_trials)
        case WorkerAttached():
            state.pool.slot(event.worker).host = event.host
            state.pool.free(event.worker)
        case WorkerLost():
            state.pool.lose(event.worker)
            state.pool.slots[event.worker].fruitless += 1
            for attempt in state.attempts_of(event.worker):
                _lose(state, attempt)
                _count_losses(state, attempt, [state.trials[number] for number in attempt.trials])
        case CheckpointFailed():
            _learn_failed_commit(state, event)
        case TrialTimedOut():
            for attempt in state.attempts_under(event.lease):
                if attempt.is_training:
                    _blame(state, attempt)
        case StopRequested():
            if not state.stopping:
                state.stopping, state.stopping_kind = event.reason, event.error_kind
        case Learned():
            _learn_of_others(state, event)
        case WorkRefused():
            _learn_refusal(state, event)
        case NodeFreed():
            state.unblock(event.node)
        case Reported() | CheckpointCommitted() | TrainingEnded():
            pass  # see ``learn``


def take_report(state: StudyState, trial: Trial, resource: int, value: float | str | None) -> None:
    """Let a trial read a report of the metric."""
    number, best = finite(value), trial.best
    trial.value, trial.value_resource = number, resource
    if number is None:
        return
    if best is None or (number < best if state.config.mode == "min" else number > best):
        trial.best, trial.best_resource = number, resource


def notify_progress(state: StudyState, trial: Trial, resource: int) -> None:
    """Notify scheduler and searcher that a trial reached a resource, with the value that it read last."""
    trial.resource = resource
    score = state.score(trial.value) if trial.value_resource else None
    for listener in state.listeners:
        listener.reported(trial.id, resource, score)


def _lose(state: StudyState, attempt: Attempt) -> None:
    """Drop an attempt whose worker is gone: no further event comes under its lease."""
    attempt.is_lost = True
    state.leave_plan(attempt)
    state.tidy(attempt)


def _learn_report(state: StudyState, event: Reported, now: float) -> list[Trial]:
    attempt = state.attempts[event.lease.number + event.lane]
    if event.resource <= attempt.resource:
        return []
    state.times.seen_s = now
    if state.plan.is_shared:
        _measure(state, attempt, event.resource, now)
    subscribers = state.subscribers(attempt, event.resource)
    _progress(attempt, event.resource, subscribers)
    state.metric_names.update(event.metrics)
    is_value = state.config.metric in event.metrics
    value = event.metrics.get(state.config.metric)
    if is_value and (state.plan.is_shared or state.config.can_evaluate):
        node = attempt.node_at(event.resource)
        state.plan.reports.report(node, event.resource, finite(value))
        state.plan.add_metric(CheckpointRef(node, event.resource))
    for trial in subscribers:
        if event.resource > trial.resource:
            if is_value:
                take_report(state, trial, event.resource, value)
            notify_progress(state, trial, event.resource)
    return subscribers


def _progress(attempt: Attempt, resource: int, subscribers: list[Trial]) -> None:
    """Attribute the units since an attempt's last event to the first trial that needs them."""
    if not attempt.is_evaluation:
        for trial in subscribers:
            if trial.checkpoint is None or trial.checkpoint.resource < resource:
                trial.trained += resource - attempt.resource
                break
    attempt.resource = resource


def _blame(state: StudyState, attempt: Attempt) -> None:
    """Count the failure of an attempt's last unit as a failure of each trial that needs the unit."""
    for trial in state.dependents(attempt, attempt.next_unit):
        trial.failures += 1


def _count_losses(state: StudyState, attempt: Attempt, trials: list[Trial]) -> None:
    """Count a lost attempt as a loss of trials, unless the run is ending: then nothing waits for its workers."""
    for trial in [] if state.stopping else trials:
        trial.losses += 1
        losses = after_loss(state.consecutive_losses.get(trial.id), trial.resource)
        state.consecutive_losses[trial.id] = losses
        if losses.count > state.config.max_losses:
            state.pool.slots[attempt.lease.worker].fruitless = 0  # the trial is to blame, not the worker


def _measure(state: StudyState, attempt: Attempt, resource: int, now: float) -> None:
    """Measure the cost of a unit, from the second report of a lease on: the time of the first includes the start."""
    if attempt.last_s is not None:
        state.plan.set_cost(attempt.node_at(resource), (now - attempt.last_s) / (resource - attempt.resource))
    attempt.last_s = now


def _learn_commit(state: StudyState, event: CheckpointCommitted) -> None:
    attempt, checkpoint = state.attempts[event.lease.number + event.lane], event.checkpoint
    resource = checkpoint.resource
    if attempt.committed is None or resource > attempt.committed:
        attempt.committed = resource
    if attempt.settled is None or resource > attempt.settled:
        attempt.settled = resource
    state.add_checkpoint(checkpoint, attempt.number)
    state.pool.hold(event.lease.worker, checkpoint)
    state.pool.slots[event.lease.worker].fruitless = 0
    state.usage.put(checkpoint, event.size_bytes)
    if checkpoint not in state.references:
        state.unreachable[checkpoint] = None
    for trial in state.dependents(attempt, resource):
        if trial.checkpoint is None or trial.checkpoint.resource <= resource:
            state.repoint(trial, checkpoint)
    _end_if_over(state, attempt)


def _learn_failed_commit(state: StudyState, event: CheckpointFailed) -> None:
    attempt = state.attempts[event.lease.number + event.lane]
    attempt.settled = max(event.checkpoint.resource, attempt.settled or 0)
    for trial in [] if event.error_kind else state.awaiting(attempt, event.checkpoint):
        trial.failures += 1
    _end_if_over(state, attempt)


def _learn_end(state: StudyState, event: TrainingEnded) -> None:
    attempt = state.attempts[event.lease.number + event.lane]
    if attempt.end is not None:
        return
    attempt.end = event
    if event.resource > attempt.resource:
        _progress(attempt, event.resource, state.subscribers(attempt, event.resource))
    if event.outcome is Outcome.FAILED and not attempt.is_closed:
        if event.error_kind == "checkpoint":
            _forget_checkpoint(state, attempt)
        elif event.error_kind == KILLED:
            _count_losses(state, attempt, state.unsaved(attempt, event))
        elif attempt.is_too_large:
            _halve_packs(state, attempt)
        else:
            _blame(state, attempt)
            if any(
                trial.failures > state.config.max_failures for trial in state.dependents(attempt, attempt.next_unit)
            ):
                state.repeated.add(event)
    elif attempt.is_evaluation and attempt.has_ended_well:
        _blame(state, attempt)  # it did not report the metric, and would not report it the next time
    state.repeated.has_trained |= event.outcome in (Outcome.REACHED, Outcome.RETURNED)
    if attempt.has_returned_early and not attempt.is_closed:
        state.plan.reports.end(attempt.node_at(event.resource), event.resource)
    slot = state.pool.slots[event.lease.worker]
    if event.error_kind != KILLED:
        slot.fruitless = 0
    if slot.lease == event.lease.number:
        state.pool.end_lane(event.lease.worker)
    _end_if_over(state, attempt)


def _halve_packs(state: StudyState, attempt: Attempt) -> None:
    """Let packs have half the lanes of one that had too little memory."""
    half = attempt.lanes // 2
    state.most_lanes = half if state.most_lanes is None else min(half, state.most_lanes)


def _end_if_over(state: StudyState, attempt: Attempt) -> None:
    """Requeue the units that a lease has not trained once it is over."""
    if attempt.is_over:
        state.leave_plan(attempt)
        state.tidy(attempt)


def _learn_of_others(state: StudyState, event: Learned) -> None:
    """Apply the training of other studies; ``deciding`` lets the waiting trials read their reports."""
    metric = state.config.metric
    for resource, metrics in event.reports:
        state.metric_names.update(metrics)
        if metric in metrics:
            state.plan.reports.report(event.node, resource, finite(metrics[metric]))
            state.plan.add_metric(CheckpointRef(event.node, resource))
    if event.ended is not None and not state.plan.reports.has_end(event.node):
        state.plan.reports.end(event.node, event.ended)
    for checkpoint in event.known_checkpoints:
        wanting = state.wanting(checkpoint)
        if isinstance(event, Imported) and not wanting and checkpoint not in state.references:
            state.imported[checkpoint] = None
            state.hold(checkpoint)
        if checkpoint in state.imported or wanting:
            state.add_checkpoint(checkpoint)
        for trial in wanting:
            state.repoint(trial, checkpoint)


def _learn_refusal(state: StudyState, event: WorkRefused) -> None:
    """End a lease that no worker ever had, without blaming a trial or a worker."""
    if state.pool.slots[event.lease.worker].lease == event.lease.number:
        state.pool.free(event.lease.worker)
    for attempt in state.attempts_under(event.lease):
        _lose(state, attempt)
    for node in event.busy:
        state.block(node)


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
