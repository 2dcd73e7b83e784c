"""Keeps the workers of a study within its share of the cluster, and says how many it could use. Pure.

A worker beyond the share is dismissed once it is idle and all of its checkpoints are durable. Of busy ones, those that
come to the boundary of a stage first end there: the rest of their batch is planned for other workers. A training with
more workers than others pauses at the end of its unit and goes on with as many as they have.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from asyncsearch.actions import CutWork, DismissWorker, LaunchWorker
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.pool import SlotState
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.stopping import Emit
from asyncsearch.ids import TrialId, WorkerId
from asyncsearch.trial import UNBOUNDED

_GIVEN_BACK = "another study or application may have the worker"
_FEWER = "it goes on with fewer workers, since another study has some of its own"


def excess(state: StudyState) -> int:
    """Return how many workers the study has beyond its share; 0 if it has none, or shares with no other study."""
    run = state.run
    if run is None or run.share is UNSET:
        return 0
    return max(0, state.pool.count_alive() - run.share)


def launch(state: StudyState, emit: Emit) -> None:
    """Launch workers in free slots, as many as the study may have."""
    for worker in _launchable(state):
        relaunch(state, worker, emit)


def relaunch(state: StudyState, worker: WorkerId, emit: Emit) -> None:
    """Launch a worker in a slot that has none, if the study may have one more."""
    if state.pool.count_alive() < _most(state):
        emit(LaunchWorker(worker, state.pool.epoch(worker) + 1))


def count_launchable(state: StudyState) -> int:
    """Return how many slots are left, of those shared with others, whose workers were not lost in vain."""
    return sum(1 for _ in _launchable(state)) if _is_shared(state) else 0


def give_back(state: StudyState, emit: Emit) -> None:
    """Dismiss workers beyond the share that have nothing to do, then those that are still being launched."""
    for kind in (SlotState.IDLE, SlotState.LAUNCHING):
        for slot in state.pool.alive() if excess(state) else ():
            if slot.state is kind and excess(state) and not state.attempts_of(slot.worker):
                emit(DismissWorker(slot.worker, slot.epoch, _GIVEN_BACK))


def cut_short(state: StudyState, emit: Emit, *, is_urgent: bool) -> None:
    """Let as many busy workers as are beyond the share end at the next boundary of a stage, the nearest one first.

    Args:
        is_urgent: end at the end of the present unit, where training can be saved there and goes on later.
    """
    surplus = excess(state) - state.pool.count_idle()  # idle ones wait for their checkpoints only
    training = [attempt for attempt in state.attempts.values() if attempt.is_training]
    larger = {attempt.number for attempt in training if _is_larger(state, attempt)}
    at_unit = {one.number for one in training if state.config.can_save and is_urgent} | larger
    ends = {one.number: _end_of(one, to_unit=one.number in at_unit) for one in training}
    training.sort(key=lambda one: (ends[one.number] - one.resource, one.number))
    for attempt in training:
        if surplus <= 0:
            return
        surplus -= attempt.size
        if ends[attempt.number] < attempt.stop:
            resize = _FEWER if attempt.number in larger else UNSET
            emit(CutWork(attempt.lease, ends[attempt.number], attempt.lane, resize))


def demand(state: StudyState, most: int) -> int:
    """Return how many workers the study could use now, at most ``most``: those that train, and what could begin.

    A trial that may be created counts as work, although it may turn out to wait for what another one trains. A training
    counts as many workers as each trial is to have; those that it has beyond are for others to use.
    """
    each = 1 if state.gang is None else state.gang.size
    slots = state.pool.slots.values()
    busy = each * sum(1 for slot in slots if slot.state is SlotState.BUSY and slot.leader is None)
    if state.run is None or state.stopping or busy >= most:
        return min(busy, most)
    lanes = 1 if state.packing is None else state.packing.limit
    left = -(-(most - busy) // each) * lanes
    ready = len(state.plan.ready_batches(left)) if state.waiting else 0
    ready += state.scheduler.next_promotion() is not None
    return min(most, busy - -(ready + _creatable(state, left)) // lanes * each)


def _creatable(state: StudyState, most: int) -> int:
    """Return how many trials may be created now, at most ``most``."""
    run, begun, length = state.run, len(state.trials), state.searcher.length()
    if run is None or state.is_exhausted:
        return 0
    limits = [most, run.num_trials and run.num_trials - begun, length and length - state.proposals]
    most = max(0, min(limit for limit in limits if limit is not None))
    if state.config.look_ahead:  # they are created as soon as a worker is free, and then the plan is asked
        most = min(most, not state.waiting)
    may = state.scheduler.may_create
    return next((count for count in range(most) if not may(TrialId(begun + count))), most)


def _is_shared(state: StudyState) -> bool:
    return state.run is not None and state.run.share is not UNSET


def _most(state: StudyState) -> int:
    run = state.run
    if run is None:
        return 0
    return run.parallelism if run.share is UNSET else min(run.share, run.parallelism)


def _launchable(state: StudyState) -> Iterator[WorkerId]:
    """Yield the slots that a launch may still fill; those of which all workers were lost in vain are left out."""
    run = state.run
    for worker in map(WorkerId, range(0 if run is None else run.parallelism)):
        slot = state.pool.slots.get(worker)
        is_free = slot is None or slot.state is SlotState.GONE
        is_in_vain = slot is not None and slot.fruitless > state.config.max_relaunches
        if is_free and not (is_in_vain and _is_shared(state)):
            yield worker


def _is_larger(state: StudyState, attempt: Attempt) -> bool:
    """Return whether an attempt has more workers than others and can go on with fewer after its present unit."""
    return state.gang is not None and attempt.size > state.gang.size and state.config.can_save


def _end_of(attempt: Attempt, *, to_unit: bool) -> int:
    """Return where an attempt is to end to give its worker back; it may be where it ends anyhow."""
    if attempt.is_evaluation or attempt.lanes > 1:  # lanes of a pack end together
        return attempt.stop
    if to_unit:
        return min(attempt.stop, attempt.resource + 1)
    boundary = attempt.stage_at(attempt.next_unit).stop
    return attempt.stop if boundary == UNBOUNDED else min(attempt.stop, boundary)
