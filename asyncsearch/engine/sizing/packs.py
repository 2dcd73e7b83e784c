"""Decides which trainings a free worker trains together. Pure; see ``sizing.packing``.

A worker gets one training by the order that holds without packs, and others that can begin now and are alike to it. It
never waits for others, and takes no more than its share where several workers are free.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.stopping import Emit, stop_run
from asyncsearch.errors import UsageError
from asyncsearch.ids import CheckpointRef, Lease, TrialId, WorkerId
from asyncsearch.plan.base_plan import Batch
from asyncsearch.sizing.lanes import Lanes, fair_lanes, fair_share, most_joined, most_lanes
from asyncsearch.sizing.pack_strategies import PackCandidate, PackChoice
from asyncsearch.sizing.packing import KnownPacks, Packing, grouping_by, mates, may_join

_WINDOW = 8
"""For each training of a pack so many are looked at."""
_OVERTAKEN = 2
"""None is created for a pack after so many times the trials looked at have been, since one that can begin was."""
_NOTHING = KnownPacks()


def pack(
    state: StudyState, packing: Packing, worker: WorkerId, more: Callable[[], bool], emit: Emit
) -> tuple[list[Batch], str]:
    """Return the batches that a free worker gets, and why it gets no more of them.

    There are none if none can begin, or the run ends since the user's strategy failed.

    Args:
        state: in which at least one batch can begin.
        packing: how the study packs.
        worker: the free worker.
        more: promotes or creates one more trial; returns whether it did.
        emit: takes the end of the run.
    """
    held = state.pool.slots[worker].held
    found = candidates(state, packing, 1, held)
    limit = lanes_of(state, packing, found[0].group) if found else Lanes(1, "")
    found, company = _with_mates(state, packing, limit, held, more, emit)
    if company is None or not found:
        return [], ""
    most = _share(state, limit)
    return [found[0].batch, *company], most.reason if len(company) + 1 >= most.count else "no more alike ones can begin"


def _with_mates(
    state: StudyState,
    packing: Packing,
    limit: Lanes,
    held: list[CheckpointRef],
    more: Callable[[], bool],
    emit: Emit,
) -> tuple[list[PackCandidate], list[Batch] | None]:
    """Let as many trainings wait as the first one lacks mates.

    Returns:
        Those that can begin now; and what trains together with the first one, None: the user's strategy failed.
    """
    found = candidates(state, packing, limit.count, held)
    if not _may_have_mates(state, limit, found):
        return found, []
    may_come, room = False, 0
    if not _is_one_overtaken(state, limit.count, found):
        missing = limit.count * state.pool.count_idle() - sum(1 for one in found if may_join(found[0], one))
        may_come = _repeat(more, missing) == max(0, missing)
        found = candidates(state, packing, limit.count, held)
        room = _WINDOW * limit.count - len(found)  # bounds the loop: what is trained already does not wait
    company = _company(state, packing, limit, found, emit)
    while may_come and company is not None and (lacking := min(room, _lacking(state, limit, found, company))) > 0:
        may_come = _repeat(more, lacking) == lacking
        room -= lacking
        found = candidates(state, packing, limit.count, held)
        company = _company(state, packing, limit, found, emit)
    return found, company


def _repeat(more: Callable[[], bool], most: int) -> int:
    """Let so many more trials wait; return how many did."""
    return next((count for count in range(most) if not more()), max(0, most))


def _is_one_overtaken(state: StudyState, limit: int, found: list[PackCandidate]) -> bool:
    """Return whether a new trial waits while many later ones were created, which would otherwise go on for ever.

    Where trials share nothing, the oldest one comes first, so none does.
    """
    new = [one.trial for one in found if not one.is_urgent] if state.plan.is_shared else []
    return bool(new) and len(state.trials) - min(new) > _OVERTAKEN * _WINDOW * limit


def _lacking(state: StudyState, limit: Lanes, found: list[PackCandidate], company: list[Batch]) -> int:
    """Return how many new trials the strategy lacks; 0 if none should be created in place of those passed over.

    A searcher that learns would propose them too early, and a promotion has no mates among them.
    """
    if not found or state.searcher.learns or found[0].interval[0] > 0:
        return 0
    lanes = 1 + len(company)
    is_any_passed_over = lanes < sum(1 for one in found if may_join(found[0], one))
    return _share(state, limit).count - lanes if is_any_passed_over else 0


def _may_have_mates(state: StudyState, limit: Lanes, found: list[PackCandidate]) -> bool:
    """Return whether the first one may have company, and is not all that a free worker may take."""
    return bool(found) and may_be_packed(state, found[0]) and _share(state, limit).count > 1


def _company(
    state: StudyState, packing: Packing, limit: Lanes, found: list[PackCandidate], emit: Emit
) -> list[Batch] | None:
    """Return the company of the first one; None if the user's strategy failed."""
    if not _may_have_mates(state, limit, found):
        return []
    others = [other for other in found[1:] if may_be_packed(state, other)]
    choice = PackChoice(found[0], others, _share(state, limit).count - 1, state.next_lease)
    return chosen(state, packing, mates, choice, emit)


def chosen(
    state: StudyState,
    packing: Packing,
    choose: Callable[[Packing, PackChoice], list[Batch]],
    choice: PackChoice,
    emit: Emit,
) -> list[Batch] | None:
    """Return the batches that a strategy chooses; None if it is the user's and has failed, so that the run ends."""
    try:
        return choose(packing, choice)
    except UsageError as error:
        stop_run(state, str(error), "UsageError", emit)
        return None


def may_be_packed(state: StudyState, candidate: PackCandidate) -> bool:
    """Return whether a training may have company: none of the trials that it is for has lost attempts repeatedly."""
    trials = {trial for stage in candidate.batch.stages for trial in stage.trials}
    lost, most = [trial for trial in trials if trial in state.consecutive_losses], state.config.max_losses
    return may_join(candidate, candidate) and not any(
        state.consecutive_losses[trial].trains_alone(state.trials[trial].resource, most) for trial in lost
    )


def lanes_of(state: StudyState, packing: Packing, group: str) -> Lanes:
    """Return how many trainings of a group may train together next."""
    units_left = _units_left(state) if packing.is_measured else math.inf
    return most_lanes(packing, state.packs.get(group, _NOTHING), units_left, state.searcher.max_batch)


def joined_lanes(state: StudyState, packing: Packing, group: str, lanes: int, given: int) -> Lanes:
    """Return how many lanes a pack of so many, which had some in all, may have with those that join."""
    known = state.packs.get(group, _NOTHING)
    return most_joined(packing, known, lanes_of(state, packing, group), lanes, given)


def is_open(state: StudyState, packing: Packing, batches: list[Batch]) -> bool:
    """Return whether others may join new work while it trains."""
    if not packing.takes_joiners:
        return False
    params = state.trials[batches[0].stages[0].trials[0]].params
    first = PackCandidate(batches[0], params, packing.group(params))
    return lanes_of(state, packing, first.group).count > 1 and may_be_packed(state, first)


def to_measure(state: StudyState, packing: Packing, batches: list[Batch]) -> tuple[int, ...]:
    """Return how many lanes of new work are to be timed together; empty for none."""
    groups = {packing.group(state.trials[batch.stages[0].trials[0]].params) for batch in batches}
    if len(groups) > 1:
        return ()  # it would be the time of neither
    return state.packs.get(groups.pop(), _NOTHING).to_measure(packing, len(batches), _units_left(state))


def packs_of(state: StudyState, attempt: Attempt) -> KnownPacks:
    """Return the facts about packs of an attempt's group, to be added to."""
    return state.packs.setdefault(_group_of(state, attempt), KnownPacks())


def packs_measured(state: StudyState, lease: Lease) -> tuple[str, KnownPacks] | None:
    """Return the group of a pack, and the facts about it; None if its lease is over."""
    opened = state.attempts_under(lease)
    return (_group_of(state, opened[0]), packs_of(state, opened[0])) if opened else None


def _group_of(state: StudyState, attempt: Attempt) -> str:
    params = state.trials[attempt.batch.stages[0].trials[0]].params
    return (grouping_by(state.config.pack_by) if state.packing is None else state.packing.group)(params)


def _share(state: StudyState, most: Lanes) -> Lanes:
    """Return how many trainings one of the workers that are free, or about to be, may take."""
    hungry = state.pool.count_hungry()
    return most if hungry <= 1 else fair_share(most, _to_begin(state), hungry)


def fair_room(state: StudyState, limit: int) -> int:
    """Return how many lanes a running pack may have with new trials, so that workers about to come get theirs."""
    hungry = state.pool.count_hungry()
    running = [slot.lanes for slot in state.pool.slots.values() if slot.lease is not None] if hungry else []
    return fair_lanes(limit, _to_begin(state) if hungry else None, hungry, running)


def _to_begin(state: StudyState) -> int | None:
    """Return how many trainings are still to begin, without promotions; None if no number is known."""
    left = None if state.run is None or state.run.num_trials is None else state.run.num_trials - len(state.trials)
    length = state.searcher.length()
    if length is not None:
        left = min(length - state.proposals, length if left is None else left)
    if left is None and not state.is_exhausted:
        return None
    return len(state.waiting) + (0 if state.is_exhausted or left is None else max(0, left))


def _units_left(state: StudyState) -> float:
    """Return at least how many units each structure has left for each worker, as far as that is known."""
    to_begin = _to_begin(state)
    if to_begin is None:
        return math.inf
    units = to_begin * (state.scheduler.first_target(TrialId(0)) or 1)
    structures = sum(1 for packs in state.packs.values() if packs.has_been_packed)
    return units / max(1, structures) / max(1, len(state.pool.slots))


def candidates(state: StudyState, packing: Packing, limit: int, held: list[CheckpointRef]) -> list[PackCandidate]:
    """Return trainings that can begin now, in the order in which free workers would get them: some for each place."""
    found = []
    for batch in state.plan.ready_batches(_WINDOW * limit, held):
        params = state.trials[batch.stages[0].trials[0]].params
        found.append(PackCandidate(batch, params, packing.group(params)))
    return found
