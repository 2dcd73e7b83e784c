"""Finds events that concern a lease or a launch that is over; they change nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asyncsearch import events
from asyncsearch.engine.affected import is_news
from asyncsearch.engine.pool import SlotState
from asyncsearch.engine.state import StudyState


def is_stale(state: StudyState, event: events.AnyEvent) -> bool:
    """Return whether the event concerns a lease or a launch that is over; ``handle`` would ignore it."""
    return _BY_KIND[type(event)](state, event)


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
    events.ShareChanged: lambda state, _event: state.run is None,
    events.StopRequested: lambda state, _event: state.run is None,
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
