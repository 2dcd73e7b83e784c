"""Decides which workers train a trial together. Pure; see ``sizing.gangs``.

A gang is a lease that several workers hold: the first one, rank 0, reports and commits for all. It is formed of idle
workers and dissolved when its training ends, so that the next gang may have other workers.
"""

from __future__ import annotations

from asyncsearch.engine.pool import Slot, SlotState
from asyncsearch.engine.sizing.share import count_launchable
from asyncsearch.engine.state import StudyState
from asyncsearch.ids import WorkerId
from asyncsearch.sizing.gangs import GangCounts, size_now
from asyncsearch.work import GangMember


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
    return len(alive) + count_launchable(state) < (state.gang.min_size or state.gang.size)


def _is_present(slot: Slot) -> bool:
    is_new = slot.state is SlotState.LAUNCHING and not slot.fruitless
    return is_new or slot.state in (SlotState.IDLE, SlotState.BUSY)


def _is_small(state: StudyState, slot: Slot) -> bool:
    leader = slot if slot.leader is None else state.pool.slots[slot.leader]
    return state.gang is not None and 1 + len(leader.followers) < state.gang.size
