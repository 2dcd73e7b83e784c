"""Trials that a unit, a checkpoint or the news of other studies concern, and events that concern none. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asyncsearch import events
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.pool import SlotState
from asyncsearch.engine.state import StudyState
from asyncsearch.events import Learned, TrainingEnded
from asyncsearch.ids import CheckpointRef, TrialId, WorkerId
from asyncsearch.plan.retention import BestTrials
from asyncsearch.trial import Trial, TrialState


def subscribers_of(state: StudyState, attempt: Attempt, resource: int) -> list[Trial]:
    """Return the trials whose path leads through the unit that an attempt reports at ``resource``, by id."""
    trials, found = state.trials, state.plan.subscribers_at(attempt.node_at(resource), resource)
    if attempt.is_evaluation:
        return [trials[number] for number in found]
    return [
        trials[number]
        for number in found
        if (checkpoint := trials[number].checkpoint) is None or checkpoint.resource <= resource
    ]


def dependents_of(state: StudyState, attempt: Attempt, resource: int) -> list[Trial]:
    """Return the trials that need the unit or evaluation of an attempt at ``resource``, by id."""
    if attempt.is_evaluation:
        here = CheckpointRef(attempt.node_at(resource), resource)
        requesters = state.plan.requesters_at(here.node, here.resource) if state.plan.lacks_metric(here) else ()
        return [state.trials[number] for number in requesters]
    trials, found = state.trials, state.plan.subscribers_at(attempt.node_at(resource), resource)
    return [
        trials[number]
        for number in found
        if (checkpoint := trials[number].checkpoint) is None or checkpoint.resource < resource
    ]


def trials_awaiting(state: StudyState, attempt: Attempt, checkpoint: CheckpointRef) -> list[Trial]:
    """Return the trials that an attempt should bring to a checkpoint."""
    trials = [state.trials[number] for number in attempt.trials]
    return [trial for trial in trials if trial.target == checkpoint.resource]


def trials_unsaved(state: StudyState, attempt: Attempt, end: TrainingEnded) -> list[Trial]:
    """Return the trials of an attempt that ended early, except those whose checkpoint is still being stored."""
    trials = [state.trials[number] for number in attempt.trials]
    awaited = None if attempt.is_over else end.checkpoint_resource
    return [trial for trial in trials if trial.target is None or trial.target != awaited]


def is_to_be_evaluated(state: StudyState, trial: Trial) -> bool:
    """Return whether a trial is at its target and waits for the metric there."""
    if (target := trial.target) is None or not state.config.can_evaluate:
        return False
    return state.plan.lacks_metric(CheckpointRef(trial.node_at(target), target))


def is_at_target(state: StudyState, trial: Trial) -> bool:
    """Return whether a trial is at its target with everything that it needs."""
    target, here = trial.target, trial.checkpoint
    if target is None or here is None or here.resource != target or here.node != trial.node_at(target):
        return False
    return not state.plan.lacks_metric(here)


def is_news(state: StudyState, event: Learned) -> bool:
    """Return whether the event has reports or checkpoints that are new and useful here."""
    if event.ended is not None and not state.plan.reports.has_end(event.node):
        return True
    metric = state.config.metric
    return any(
        metric in metrics and not state.plan.reports.has(event.node, resource) for resource, metrics in event.reports
    ) or any(trials_wanting(state, checkpoint) for checkpoint in event.known_checkpoints)


def is_outdated(state: StudyState, attempt: Attempt) -> bool:
    """Return whether an attempt need not begin: no trial needs it, or other studies have trained more since."""
    start = attempt.batch.stages[0].start
    for number in attempt.trials:
        trial = state.trials[number]
        if trial.checkpoint is not None and trial.checkpoint.resource > start:
            return True
        known = state.plan.reports.between(trial.steps, max(trial.resource, attempt.resource), trial.horizon)
        if next(known, None) is not None:
            return True
    return attempt.is_closed


def trials_wanting(state: StudyState, checkpoint: CheckpointRef) -> list[Trial]:
    """Return the trials that would continue from a checkpoint rather than from their current one."""
    here = checkpoint.resource
    trials = [state.trials[number] for number in state.plan.subscribers_at(checkpoint.node, here)]
    return [trial for trial in trials if trial.checkpoint is None or trial.checkpoint.resource < here]


def kept_for_later(state: StudyState) -> dict[CheckpointRef, tuple[TrialId, ...]]:
    """Return the checkpoints that only a later run with more trials may load, each with its paused trials.

    Those of the ``keep_checkpoints`` best trials are results, and are not among them.
    """
    waiting = [trial for trial in state.trials if trial.state is TrialState.PAUSED and trial.checkpoint is not None]
    best = BestTrials(state.config.keep_checkpoints)
    best.restore(state.best_trials.snapshot())
    found: dict[CheckpointRef, list[TrialId]] = {}
    for trial in waiting:
        assert trial.checkpoint is not None
        found.setdefault(trial.checkpoint, []).append(trial.id)
        best.offer(trial.id, state.score(trial.ranked_value(state.config.rank_by)))
    kept = {state.trials[number].checkpoint for number in best.trials()}
    return {
        checkpoint: tuple(trials)
        for checkpoint, trials in found.items()
        if checkpoint not in kept and state.references[checkpoint] == len(trials)
    }


def is_stale(state: StudyState, event: events.AnyEvent) -> bool:
    """Return whether the event concerns a lease or a launch that is over; ``handle`` would ignore it."""
    return _BY_KIND[type(event)](state, event)


def is_unused(state: StudyState, worker: WorkerId, epoch: int) -> bool:
    """Return whether a launch of a worker has nothing to train and nothing to store."""
    slot = state.pool.slots.get(worker)
    is_idle = slot is not None and slot.epoch == epoch and slot.state is SlotState.IDLE
    return is_idle and not state.attempts_of(worker)


def _is_lane_over(state: StudyState, event: events.Reported) -> bool:
    attempt = state.attempts.get(event.lease.number + event.lane)
    return attempt is None or attempt.lease != event.lease


def _is_lease_over(state: StudyState, event: events.PackMeasured | events.VolumeMeasured) -> bool:
    return not state.attempts_under(event.lease)


def _is_timed(state: StudyState, event: events.PacksTimed) -> bool:
    known = state.packs.get(event.group)
    return state.packing is None or not state.packing.is_measured or (known is not None and bool(known.seconds))


def _are_all_over(state: StudyState, event: events.TrialTimedOut | events.WorkRefused) -> bool:
    return not state.attempts_named(event.lease, event.lane)


def _is_attached(state: StudyState, event: events.WorkerAttached) -> bool:
    slot = state.pool.slots.get(event.worker)
    return slot is None or slot.epoch != event.epoch or slot.state is not SlotState.LAUNCHING


def _never(_state: StudyState, _event: events.AnyEvent) -> bool:
    return False


_BY_KIND: dict[type[events.AnyEvent], Callable[[StudyState, Any], bool]] = {
    events.Reported: _is_lane_over,
    events.CheckpointCommitted: _is_lane_over,
    events.TrainingEnded: _is_lane_over,
    events.CheckpointFailed: _is_lane_over,
    events.TrialTimedOut: _are_all_over,
    events.WorkRefused: _are_all_over,
    events.WorkerAttached: _is_attached,
    events.WorkerLost: lambda state, event: not state.pool.is_current(event.worker, event.epoch),
    events.WorkersIdled: lambda state, event: not any(is_unused(state, *launch) for launch in event.workers),
    events.ShareChanged: lambda state, _event: state.run is None,
    events.StopRequested: lambda state, _event: state.run is None,
    events.RuleDue: lambda state, _event: state.run is None,
    events.EnoughTrials: lambda state, _event: state.run is None,
    events.Consulted: _is_lane_over,
    events.Learned: lambda state, event: not is_news(state, event),
    events.LearnedPacked: lambda state, event: not is_news(state, event),
    events.PackMeasured: _is_lease_over,
    events.VolumeMeasured: _is_lease_over,
    events.PacksTimed: _is_timed,
    events.NodeFreed: lambda state, event: event.node not in state.busy,
    events.Imported: _never,
    events.DriverStarted: _never,
    events.RunRequested: _never,
}
"""A table, since each event is asked for, and a ``match`` tests one kind after another."""
