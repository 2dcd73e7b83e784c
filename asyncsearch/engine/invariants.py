"""The invariants of ``StudyState``, derived anew from first principles. Tests call it after every event. Pure."""

from __future__ import annotations

from collections import Counter

from asyncsearch.engine.pool import Slot, SlotState
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.transitions import WITHOUT
from asyncsearch.errors import InternalError
from asyncsearch.ids import Lease
from asyncsearch.trial import TrialState
from asyncsearch.work import KEPT_CHECKPOINTS


def check(state: StudyState) -> None:
    """Raise if any collection contradicts another.

    Raises:
        InternalError: names the invariant and the trial, lease or worker that breaks it.
    """
    # A checkpoint may turn out to be damaged while its own trial is paused, if other trials continue from it too.
    may_lack = bool(state.plan.reports.nodes) or any(trial.path for trial in state.trials)
    for index, trial in enumerate(state.trials):
        _hold(trial.id == index, "trial {} has id {}", index, trial.id)
        _hold((trial.state is TrialState.WAITING) == (trial.id in state.waiting), "{.name} and the waiting list", trial)
        _hold(
            (trial.state is TrialState.RUNNING) == (trial.id in state.open_attempts), "{.name} and its attempt", trial
        )
        is_asked = trial.state in (TrialState.WAITING, TrialState.RUNNING)
        _hold(is_asked == (state.plan.target_of(trial.id) is not None), "{.name} and its request", trial)
        paused_without = trial.state is TrialState.PAUSED and trial.checkpoint is None
        _hold(
            not paused_without or may_lack or trial.reason.endswith(WITHOUT),
            "{.name} is paused without a checkpoint",
            trial,
        )
    for number, attempt in state.attempts.items():
        _hold(attempt.number == number, "attempt {} has another lease", number)
        _hold(not attempt.is_lost, "{} is of a lost worker", attempt.lease)
        _hold(state.pool.is_current(attempt.lease.worker, attempt.lease.epoch), "{} is of a lost worker", attempt.lease)
        slot = state.pool.slots[attempt.lease.worker]
        _hold(attempt.end is not None or slot.lease == attempt.lease.number, "{} and its slot", attempt.lease)
        for trial_id in attempt.trials:
            _hold(state.open_attempts.get(trial_id) == number, "trial {} and {}", trial_id, attempt.lease)
    for trial_id, number in state.open_attempts.items():
        _hold(trial_id in state.attempts[number].trials, "trial {} runs under another lease", trial_id)
    training = Counter(a.lease.number for a in state.attempts.values() if a.end is None)
    for slot in state.pool.slots.values():
        _hold(slot.lease is None or slot.lanes == training[slot.lease], "worker {} and its lanes", slot.worker)
        _hold((slot.state is SlotState.BUSY) == (slot.lease is not None), "worker {} and its lease", slot.worker)
        _hold(_fits(state, slot), "worker {} and the limit of its pack", slot.worker)
        for follower in slot.followers:
            other = state.pool.slots[follower]
            is_one = other.leader == slot.worker and other.lease == slot.lease and not other.followers
            _hold(is_one, "worker {} and the gang of worker {}", follower, slot.worker)
        leads = slot.leader is None or slot.worker in state.pool.slots[slot.leader].followers
        _hold(leads, "worker {} and its leader", slot.worker)
        _hold(not slot.held or slot.state is not SlotState.GONE, "worker {} is gone and keeps checkpoints", slot.worker)
        _hold(len(set(slot.held)) == len(slot.held) <= KEPT_CHECKPOINTS, "what worker {} keeps", slot.worker)
        for checkpoint in slot.held if slot.state is SlotState.IDLE else ():
            holder = state.pool.idle_holder(checkpoint)
            _hold(holder is not None and holder <= slot.worker, "{} and worker {} that has it", checkpoint, slot.worker)
    holders = [trial.checkpoint for trial in state.trials] + [a.batch.load for a in state.attempts.values()]
    kept = (*holders, *state.imported, *state.best_saved.checkpoints())
    counted = Counter(checkpoint for checkpoint in kept if checkpoint is not None)
    _hold(counted == state.references, "the references to checkpoints")
    _hold(not state.references.keys() & state.unreachable.keys(), "a checkpoint that a trial needs is to be deleted")
    if state.config.quota_bytes is not None:
        durable = state.references.keys() | state.unreachable.keys()
        _hold(state.usage.sizes.keys() == durable, "the checkpoints that a quota counts")
        _hold(state.usage.total_bytes == sum(state.usage.sizes.values()), "the bytes that a quota counts")
    _hold(state.busy.keys() == state.plan.blocked, "the nodes in which others train")
    _hold(not state.touched, "a lease was left without its news")


def _fits(state: StudyState, slot: Slot) -> bool:
    """Return whether a worker trains no more lanes together than its study asks for."""
    if slot.lease is None or state.packing is None or state.packing.is_measured:
        return True
    return state.lanes_staying(Lease(slot.lease, slot.worker, slot.epoch)) <= state.packing.limit


def _hold(is_true: bool, what: str, *named: object) -> None:
    if not is_true:
        raise InternalError(f"Invariant broken: {what.format(*named)}. Please report this with the study's journal.")
