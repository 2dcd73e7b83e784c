"""Applies facts to the state, without decisions. Pure; see ``engine.handling`` for the rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from asyncsearch.engine.affected import subscribers_of, trials_wanting
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.endings import (
    learn_commit,
    learn_end,
    learn_failed_commit,
    learn_loss,
    learn_refusal,
    learn_timeout,
    lose,
    progress,
)
from asyncsearch.engine.repeated_failures import RepeatedFailures
from asyncsearch.engine.sizing.gangs import is_scaled, note_first, note_unit, note_volume
from asyncsearch.engine.sizing.packs import packs_of
from asyncsearch.engine.state import StudyState
from asyncsearch.events import (
    AnyEvent,
    CheckpointCommitted,
    CheckpointFailed,
    Consulted,
    DriverStarted,
    EnoughTrials,
    Imported,
    Learned,
    LearnedPacked,
    NodeFreed,
    PackMeasured,
    PacksTimed,
    Reported,
    RuleDue,
    RunRequested,
    ShareChanged,
    StopRequested,
    TrainingEnded,
    TrialTimedOut,
    VolumeMeasured,
    WorkerAttached,
    WorkerLost,
    WorkersIdled,
    WorkRefused,
)
from asyncsearch.ids import CheckpointRef
from asyncsearch.sizing.autoscale import Volume
from asyncsearch.sizing.pack_probe import most_that_fit
from asyncsearch.sizing.packing import KnownPacks
from asyncsearch.trial import Trial
from asyncsearch.values import finite


def learn(state: StudyState, event: AnyEvent, now: float) -> list[Trial]:
    """Apply a fact that is not stale; return the subscribers of a new report, so that they may be judged."""
    return _BY_KIND[type(event)](state, event, now) or []


def _learn_start_of_driver(state: StudyState, _event: DriverStarted, _now: float) -> None:
    state.times.end(state.times.seen_s, state.begun)  # the driver of a run in progress has died
    state.pool.clear()
    state.run, state.stopping, state.stopping_kind = None, "", ""
    state.unblock_all()
    for attempt in list(state.attempts.values()):
        lose(state, attempt)


def _learn_run(state: StudyState, event: RunRequested, now: float) -> None:
    state.run, state.stopping, state.stopping_kind = event, "", ""
    state.repeated = RepeatedFailures()
    state.times.begin(now, state.begun)
    for listener in state.listeners:
        listener.run_requested(event.num_trials)


def _learn_share(state: StudyState, event: ShareChanged, _now: float) -> None:
    assert state.run is not None, "else the event is stale"
    state.run = msgspec.structs.replace(state.run, share=event.workers)


def _learn_enough(state: StudyState, _event: EnoughTrials, _now: float) -> None:
    assert state.run is not None, "else the event is stale"
    state.run = msgspec.structs.replace(state.run, num_trials=len(state.trials))


def _learn_consulted(state: StudyState, event: Consulted, _now: float) -> None:
    """Note the answers and words of a trial in mid-training, for people: they decide nothing."""
    state.has_notes |= "note" in event.facts
    facts = event.facts.get("several", [event.facts])
    params = {name: value for fact in facts for name, value in fact.get("params", {}).items()}
    attempt = state.attempt(event.lease, event.lane)
    for number in attempt.trials if attempt is not None and params else ():
        state.trials[number].answered = {**(state.trials[number].answered or {}), **params}


def _learn_time(state: StudyState, _event: RuleDue, now: float) -> None:
    state.times.seen_s = now


def _learn_worker(state: StudyState, event: WorkerAttached, _now: float) -> None:
    state.pool.slot(event.worker).host = event.host
    state.pool.free(event.worker)


def _learn_stop(state: StudyState, event: StopRequested, _now: float) -> None:
    if not state.stopping:
        state.stopping, state.stopping_kind = event.reason, event.error_kind


def take_report(state: StudyState, trial: Trial, resource: int, value: float | str | None) -> None:
    """Let a trial read a report of the metric."""
    number, best = finite(value), trial.best
    trial.value, trial.value_resource = number, resource
    if state.stop_facts is not None:
        state.stop_facts.reported(trial.id, number, state.config.mode)
    if number is None:
        return
    if best is None or (number < best if state.config.mode == "min" else number > best):
        trial.best, trial.best_resource = number, resource


def notify_progress(state: StudyState, trial: Trial, resource: int) -> None:
    """Notify scheduler and searcher that a trial reached a resource, with the value that it read last."""
    trial.resource = resource
    if not trial.value_resource:
        return  # a metric that is not there yet is not a bad one
    score = state.score(trial.value)
    for listener in state.listeners:
        listener.reported(trial.id, resource, score)


def _learn_report(state: StudyState, event: Reported, now: float) -> list[Trial]:
    attempt = state.attempts[event.lease.number + event.lane]
    if event.resource <= attempt.resource:  # sent again: its units and its value would count twice
        return []
    state.times.seen_s = now
    if state.plan.is_shared or state.packing is not None or is_scaled(state):
        _measure(state, attempt, event.resource, now)
    subscribers = subscribers_of(state, attempt, event.resource)
    progress(state, attempt, event.resource, subscribers)
    if state.stop_facts is not None:
        state.stop_facts.tick(attempt.trials, attempt.number, attempt.since_s, now)
    state.add_metric_names(event.metrics)
    is_value = state.config.metric in event.metrics
    value = event.metrics.get(state.config.metric)
    if is_value:
        state.note_metric(event.resource)
    elif not state.metric_since:
        state.repeated.claim("MetricNotReportedError", state.pool.workers_of(event.lease.worker))
    if is_value and (state.plan.is_shared or state.config.can_evaluate):
        node = attempt.node_at(event.resource)
        state.plan.reports.report(node, event.resource, finite(value))
        state.plan.add_metric(CheckpointRef(node, event.resource))
    if state.latest.has_others(event.metrics):
        readers = [trial.id for trial in subscribers if event.resource > trial.resource]
        node_of_all = attempt.node_at(event.resource) if state.plan.is_shared else None
        state.latest.report(node_of_all, event.resource, event.metrics, readers)
    for trial in subscribers:
        if event.resource > trial.resource:
            if is_value:
                take_report(state, trial, event.resource, value)
            notify_progress(state, trial, event.resource)
            if (watched := state.scheduler.watches) is not None and watched in event.metrics:
                state.scheduler.watched(trial.id, event.resource, finite(event.metrics[watched]))
    return subscribers


def _measure(state: StudyState, attempt: Attempt, resource: int, now: float) -> None:
    """Measure the cost of a unit, from the second report of a lease on: the time of the first includes the start.

    A unit of a pack takes the time of all its lanes; the cost is the time of this one alone. A unit on more workers
    than others have costs its time on as many.
    """
    units = resource - attempt.resource
    if attempt.last_s is not None:
        seconds = note_unit(state, attempt, (now - attempt.last_s) / units)
        if state.packing is not None:
            packs_of(state, attempt).observe(attempt.peers, seconds, units)
        if attempt.peers > 1:
            seconds = packs_of(state, attempt).alone_s(seconds, attempt.peers)
        if state.plan.is_shared:
            state.plan.set_cost(attempt.node_at(resource), seconds)
    elif units == 1:
        note_first(state, attempt, now - attempt.since_s)
    lanes = min(attempt.lanes, state.pool.slots[attempt.lease.worker].lanes)  # others may have come that train later
    if attempt.last_s is None and attempt.has_joined:
        attempt.lanes = lanes  # some may have left before it began
    attempt.last_s, attempt.peers = now, lanes


def _learn_of_packs(state: StudyState, event: PackMeasured, _now: float) -> None:
    for attempt in state.attempts_under(event.lease)[:1]:
        known = packs_of(state, attempt)
        known.note(event.seconds)
        known.device = event.device or known.device
        known.refusal = event.refusal or known.refusal
        known.sequential = event.sequential or known.sequential
        known.fits = known.fits if event.memory is None else most_that_fit(event.memory)


def _learn_times_of_others(state: StudyState, event: PacksTimed, _now: float) -> None:
    known = state.packs.setdefault(event.group, KnownPacks())
    known.note(event.seconds)
    known.device, known.timed_by, known.fits = event.device, event.study, event.fits


def _learn_volume(state: StudyState, event: VolumeMeasured, _now: float) -> None:
    for attempt in state.attempts_under(event.lease):
        note_volume(state, attempt, Volume(event.steps, event.gradient_bytes, event.device))


def _learn_of_others(state: StudyState, event: Learned, _now: float) -> None:
    """Apply the training of other studies; ``deciding`` lets the waiting trials read their reports."""
    metric = state.config.metric
    for resource, metrics in event.reports:
        state.add_metric_names(metrics)
        state.latest.report(event.node, resource, metrics, ())
        if metric in metrics:
            state.note_metric(resource)
            state.plan.reports.report(event.node, resource, finite(metrics[metric]))
            state.plan.add_metric(CheckpointRef(event.node, resource))
    if event.ended is not None and not state.plan.reports.has_end(event.node):
        state.plan.reports.end(event.node, event.ended)
    for checkpoint in event.known_checkpoints:
        wanting = trials_wanting(state, checkpoint)
        if isinstance(event, Imported) and not wanting and checkpoint not in state.references:
            state.imported[checkpoint] = None
            state.hold(checkpoint)
        if checkpoint in state.imported or wanting:
            state.add_checkpoint(checkpoint)
        for trial in wanting:
            state.repoint(trial, checkpoint)


_BY_KIND: dict[type[AnyEvent], Callable[[StudyState, Any, float], list[Trial] | None]] = {
    Reported: _learn_report,
    CheckpointCommitted: learn_commit,
    TrainingEnded: learn_end,
    CheckpointFailed: learn_failed_commit,
    DriverStarted: _learn_start_of_driver,
    RunRequested: _learn_run,
    ShareChanged: _learn_share,
    WorkerAttached: _learn_worker,
    WorkerLost: learn_loss,
    WorkersIdled: lambda state, event, _now: None,
    TrialTimedOut: learn_timeout,
    StopRequested: _learn_stop,
    EnoughTrials: _learn_enough,
    RuleDue: _learn_time,
    Consulted: _learn_consulted,
    Learned: _learn_of_others,
    LearnedPacked: _learn_of_others,
    Imported: _learn_of_others,
    WorkRefused: learn_refusal,
    PackMeasured: _learn_of_packs,
    VolumeMeasured: _learn_volume,
    PacksTimed: _learn_times_of_others,
    NodeFreed: lambda state, event, _now: state.unblock(event.node),
}
"""A table, since each event is learned, and a ``match`` tests one kind after another."""
