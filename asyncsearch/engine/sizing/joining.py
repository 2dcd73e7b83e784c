"""Lets trainings join packs that train already, while no worker is free. Pure; see ``engine.sizing.packs``.

A pack has room while it has fewer lanes than its worker would get at once. Trainings that were begun before, and
promotions, join wherever they fit, so that none waits longer than a unit of a pack with room. A trial is created to
join only when nothing else waits: what fits into no pack gets the worker that is free first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from asyncsearch.actions import AddLane
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.lanes import lane_for
from asyncsearch.engine.next_trials import create_next, promote_next
from asyncsearch.engine.sizing.packs import candidates, chosen, fair_room, joined_lanes, may_be_packed
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.stopping import Emit
from asyncsearch.ids import Lease
from asyncsearch.sizing.pack_strategies import PackCandidate, PackChoice
from asyncsearch.sizing.packing import Packing, joiners


class Room(NamedTuple):
    """A running pack that may have more lanes."""

    lease: Lease
    lanes: int
    """Those that have units left: who has none leaves as soon as it has saved, and one that comes begins after that."""
    limit: int
    """How many it may have."""
    member: PackCandidate
    """One of its trainings."""


def join(state: StudyState, packing: Packing, emit: Emit) -> None:
    """Let trainings that are due join the packs with room, then new trials; nothing joins while a worker is free."""
    creations = None
    while state.run is not None and not state.stopping and state.pool.first_idle() is None:
        rooms = _rooms(state, packing)
        if not rooms:
            return
        if creations is None:
            creations = sum(room.limit - room.lanes for room in rooms)
        if _join_due(state, packing, rooms, emit) or promote_next(state, emit):
            continue
        fair = [room for room in rooms if room.lanes < fair_room(state, room.limit)]
        if not fair:
            return
        ready = _ready(state, packing, fair)
        if _add(state, packing, fair, ready, emit):
            continue
        if not creations or ready or not create_next(state, emit):
            return
        creations -= 1


def _join_due(state: StudyState, packing: Packing, rooms: list[Room], emit: Emit) -> bool:
    """Let trainings that were begun before join; return whether one did, or the run ends."""
    return _add(state, packing, rooms, [one for one in _ready(state, packing, rooms) if one.batch.is_urgent], emit)


def _rooms(state: StudyState, packing: Packing) -> list[Room]:
    """Return the packs that may have more lanes, that with the fewest first."""
    members: dict[int, Attempt] = {}
    for attempt in state.attempts.values():
        # Lanes in their last unit have room too: who comes as another one leaves trains that unit with them.
        if attempt.is_open and not attempt.is_shut and attempt.is_training and attempt.resource < attempt.stop:
            members.setdefault(attempt.lease.number, attempt)
    found = []
    for attempt in members.values():
        member = _candidate(state, packing, attempt)
        lanes, given = state.lanes_staying(attempt.lease), state.pool.slots[attempt.lease.worker].given
        limit = joined_lanes(state, packing, member.group, lanes, given).count
        if lanes < limit and may_be_packed(state, member):
            found.append(Room(attempt.lease, lanes, limit, member))
    return sorted(found, key=lambda room: (room.lanes, room.lease.worker))


def _candidate(state: StudyState, packing: Packing, attempt: Attempt) -> PackCandidate:
    params = state.trials[attempt.batch.stages[0].trials[0]].params
    return PackCandidate(attempt.batch, params, packing.group(params))


def _ready(state: StudyState, packing: Packing, rooms: Sequence[Room]) -> list[PackCandidate]:
    held = state.pool.slots[rooms[0].lease.worker].held
    return candidates(state, packing, max(room.limit for room in rooms), held)


def _add(
    state: StudyState, packing: Packing, rooms: Sequence[Room], ready: Sequence[PackCandidate], emit: Emit
) -> bool:
    """Let trainings join the first pack that they fit into; return whether there was one, or the run ends."""
    others = [one for one in ready if may_be_packed(state, one)]
    for room in rooms:
        count = min(room.limit - room.lanes, -(-len(others) // len(rooms)))
        batches = chosen(state, packing, joiners, PackChoice(room.member, others, count, state.next_lease), emit)
        for batch in batches or ():
            emit(AddLane(room.lease, state.next_lease - room.lease.number, lane_for(state, batch)))
        if batches or state.stopping:
            return True
    return False
