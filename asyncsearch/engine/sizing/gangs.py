"""Decides which workers train a trial together, and when a training gets more of them or fewer. Pure.

A gang is a lease that several workers hold: the first one, rank 0, reports and commits for all. It is formed of idle
workers and dissolved when its training ends, so that the next gang may have other workers.


Trainings that could begin get workers before any gets more than ``workers_per_trial``, and where idle workers are more
than these need, each gets its part of them; see ``sizing.autoscale``. A running training changes its number of workers
by a pause at the end of a unit: it is cut there, and its trials wait for work as after any pause. While some do so, no
others are chosen, since these would count on the same workers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from asyncsearch.actions import CutWork
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.next_trials import is_due_when_stored
from asyncsearch.engine.pool import Slot, SlotState
from asyncsearch.engine.sizing.share import count_launchable
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.stopping import Emit
from asyncsearch.ids import TrialId, WorkerId
from asyncsearch.plan.base_plan import Batch
from asyncsearch.sizing.autoscale import (
    Autoscale,
    KnownSpeed,
    KnownSpeeds,
    OwnUnits,
    Sized,
    Volume,
    choose_size,
    is_worth,
    seconds_at,
)
from asyncsearch.sizing.gangs import Gang, GangCounts, size_now
from asyncsearch.sizing.packing import group_of
from asyncsearch.trial import UNBOUNDED
from asyncsearch.work import GangMember


class _Gain(NamedTuple):
    seconds: float
    """That are saved."""
    attempt: Attempt
    sized: Sized


def is_scaled(state: StudyState) -> bool:
    """Return whether trainings may have different numbers of workers."""
    return state.gang is not None and state.gang.autoscale is not None


def size_for(state: StudyState, batch: Batch, least: int, more: Callable[[], bool]) -> Sized:
    """Return how many of the idle workers train a batch.

    Args:
        state: in which the batch can begin.
        batch: the batch.
        least: workers that it gets in any case.
        more: promotes or creates one more trial; returns whether it did.
    """
    gang, alone = state.gang, Sized(least, "")
    if gang is None or gang.autoscale is None or least != gang.size:
        return alone
    first = batch.stages[0]
    known, own = _known(state, first.trials[0])
    units = batch.stages[-1].stop - first.start
    idle = state.pool.count_idle()
    if batch.stages[-1].stop == UNBOUNDED or choose_size(gang.autoscale, known, gang.size, idle, units, own) is None:
        return alone
    spare = idle // (1 + _count_others(state, idle // gang.size, more))
    return choose_size(gang.autoscale, known, gang.size, spare, units, own) or alone


def resize(state: StudyState, emit: Emit) -> None:
    """Let running trainings pause to go on with more workers, or one so that others begin with some of its own."""
    gang = state.gang
    if gang is None or gang.autoscale is None or state.run is None or state.stopping or not state.config.can_save:
        return
    if any(attempt.resize for attempt in state.attempts.values()):
        return
    idle = state.pool.count_idle()
    if idle >= gang.size:
        # A trial whose checkpoint is being stored would find its worker taken, and ask for another change of sizes.
        kept = gang.size if is_due_when_stored(state) else 0
        _grow(state, gang, gang.autoscale, idle - kept, emit)
    elif state.plan.ready_batches(1) or state.scheduler.next_promotion() is not None:
        _shrink(state, gang, emit)


def note_unit(state: StudyState, attempt: Attempt, seconds: float) -> float:
    """Take in the time of a unit; return what it would take on as many workers as others have."""
    if state.gang is None or state.gang.autoscale is None:
        return seconds
    known, stage = _noted(state, attempt), attempt.stage_at(attempt.resource + 1)
    known.note_unit(attempt.size, seconds, state.gang.size, _own(state, stage.trials[0], attempt.device))
    for number in stage.trials:
        if not state.trials[number].state.is_finished:
            state.own_units.setdefault(number, OwnUnits()).note(attempt.device, attempt.size, seconds)
    alone, now = (seconds_at(known, state.gang.size, size) for size in (state.gang.size, attempt.size))
    return seconds if alone is None or not now else seconds * alone / now


def note_first(state: StudyState, attempt: Attempt, seconds: float) -> None:
    """Take in the time from an assignment to the end of its first unit."""
    if is_scaled(state):
        _noted(state, attempt).note_first(attempt.size, seconds)


def note_volume(state: StudyState, attempt: Attempt, volume: Volume) -> None:
    """Take in what the workers of a training tell each other."""
    if is_scaled(state):
        attempt.device = volume.device
        _noted(state, attempt).volume = volume
        state.speeds[_group(state, attempt)].device = volume.device


def _count_others(state: StudyState, most: int, more: Callable[[], bool]) -> int:
    """Return how many other trainings could begin now or in a moment, at most one less than ``most``."""
    while (ready := len(state.plan.ready_batches(most))) < most and more():
        pass
    return min(max(0, ready - 1) + is_due_when_stored(state), max(0, most - 1))


def _grow(state: StudyState, gang: Gang, scale: Autoscale, idle: int, emit: Emit) -> None:
    """Let the trainings pause that gain most by the idle workers, as far as these suffice."""
    while idle >= gang.size:
        gains = [_gain(state, gang, scale, attempt, idle) for attempt in state.attempts.values()]
        best = max((gain for gain in gains if gain is not None), default=None, key=lambda gain: gain.seconds)
        if best is None:
            return
        idle -= best.sized.size - best.attempt.size
        _pause(best.attempt, f"it goes on with {best.sized.reason}", emit)


def _gain(state: StudyState, gang: Gang, scale: Autoscale, attempt: Attempt, idle: int) -> _Gain | None:
    """Return the gain of a running training by idle workers; None if it is too small."""
    units, known = _units_left(attempt), _known_to(state, attempt)
    if units < 1 or attempt.size < gang.size:
        return None
    own = _own(state, attempt.trial, attempt.device)
    if not own and (unit_s := seconds_at(known, gang.size, attempt.size)) is not None:
        own = {attempt.size: unit_s}  # it has trained one of its own before it pauses
    sized = choose_size(scale, known, gang.size, attempt.size + idle, units, own)
    if sized is None or sized.size <= attempt.size:
        return None
    pace = known.pace(gang.size, own) or 1.0
    now_s, next_s = (pace * (seconds_at(known, gang.size, size) or 0.0) for size in (attempt.size, sized.size))
    if not is_worth(units * now_s, units * next_s, known.start_s(sized.size)):
        return None
    return _Gain(units * (now_s - next_s), attempt, sized)


def _shrink(state: StudyState, gang: Gang, emit: Emit) -> None:
    """Let the training pause that has the most left of those with more workers than others, so that these can begin."""
    best: tuple[float, Attempt] | None = None
    for attempt in state.attempts.values():
        known, units = _known_to(state, attempt), _units_left(attempt)
        pace = known.pace(gang.size, _own(state, attempt.trial, attempt.device)) or 1.0
        seconds = pace * (seconds_at(known, gang.size, attempt.size) or 0.0)
        if attempt.size <= gang.size or not is_worth(units * seconds, 0, known.start_s(gang.size)):
            continue
        if best is None or units * seconds > best[0]:
            best = units * seconds, attempt
    if best is not None:
        _pause(best[1], "it gives workers to trials that wait for one", emit)


def _pause(attempt: Attempt, reason: str, emit: Emit) -> None:
    emit(CutWork(attempt.lease, attempt.resource + 1, attempt.lane, reason))


def _units_left(attempt: Attempt) -> int:
    """Return how many units would be left after a pause at the end of the present one; 0 if it is not to pause."""
    can_pause = attempt.is_training and not attempt.is_evaluation and not attempt.is_stop_sent
    if not can_pause or attempt.last_s is None or attempt.stop == UNBOUNDED or attempt.resize:
        return 0
    return attempt.stop - attempt.resource - 1


def _known_to(state: StudyState, attempt: Attempt) -> KnownSpeed:
    """Return the facts about the structure of an attempt on its device."""
    known = state.speeds.get(_group(state, attempt), KnownSpeeds())
    return known.on.get(attempt.device) or KnownSpeed()


def _known(state: StudyState, trial: TrialId) -> tuple[KnownSpeed, dict[int, float]]:
    """Return the facts about the structure of a trial where it may train next, and about the trial itself there."""
    known = state.speeds.get(group_of(state.trials[trial].params), KnownSpeeds())
    return known.on.get(known.device) or KnownSpeed(), _own(state, trial, known.device)


def _own(state: StudyState, trial: TrialId, device: str) -> dict[int, float]:
    """Return workers -> seconds of the units that a trial has trained on a device."""
    own = state.own_units.get(trial)
    return {} if own is None else own.on(device)


def _noted(state: StudyState, attempt: Attempt) -> KnownSpeed:
    """Return the facts about an attempt's structure on its device, to be added to."""
    known = state.speeds.setdefault(_group(state, attempt), KnownSpeeds())
    return known.on.setdefault(attempt.device, KnownSpeed())


def _group(state: StudyState, attempt: Attempt) -> str:
    return group_of(state.trials[attempt.batch.stages[0].trials[0]].params)


def next_size(state: StudyState) -> int:
    """Return how many workers the next training gets; 0 if it waits until more are idle."""
    if state.gang is None:
        return 1
    slots = state.pool.slots.values()
    small = [slot for slot in slots if slot.state is SlotState.BUSY and _is_small(state, slot)]
    counts = GangCounts(state.pool.count_idle(), sum(1 for slot in slots if _is_present(slot)), len(small))
    return size_now(state.gang, counts)


def members(state: StudyState, leader: WorkerId, size: int) -> tuple[GangMember, ...]:
    """Return the workers of a gang in the order of their ranks: those on the leader's host come first."""
    first = state.pool.slots[leader]
    idle = [slot for slot in state.pool.alive() if slot.state is SlotState.IDLE and slot is not first]
    idle.sort(key=lambda slot: (slot.host != first.host, slot.worker))
    return tuple([GangMember(slot.worker, slot.epoch) for slot in (first, *idle[: size - 1])])


def is_waiting_in_vain(state: StudyState) -> bool:
    """Return whether no gang can ever be formed: no worker trains or starts, and those that are idle are too few.

    On a cluster that others share, workers may come in the slots that are left.
    """
    if state.gang is None or next_size(state):
        return False
    alive = state.pool.alive()
    if any(slot.state is not SlotState.IDLE for slot in alive):
        return False
    return len(alive) + count_launchable(state) + len(state.pool.released) < (state.gang.min_size or state.gang.size)


def _is_present(slot: Slot) -> bool:
    is_new = slot.state is SlotState.LAUNCHING and not slot.fruitless
    return is_new or slot.state in (SlotState.IDLE, SlotState.BUSY)


def _is_small(state: StudyState, slot: Slot) -> bool:
    leader = slot if slot.leader is None else state.pool.slots[slot.leader]
    return state.gang is not None and 1 + len(leader.followers) < state.gang.size
