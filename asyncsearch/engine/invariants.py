"""The invariants of ``StudyState``, derived anew from first principles. Tests call it after every event. Pure."""

from __future__ import annotations

from collections import Counter

from asyncsearch.engine.pool import SlotState
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import InternalError
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
        _hold(trial.id == index, f"trial {index} has id {trial.id}")
        _hold((trial.state is TrialState.WAITING) == (trial.id in state.waiting), f"{trial.name} and the waiting list")
        _hold((trial.state is TrialState.RUNNING) == (trial.id in state.open_attempts), f"{trial.name} and its attempt")
        is_asked = trial.state in (TrialState.WAITING, TrialState.RUNNING)
        _hold(is_asked == (state.plan.target_of(trial.id) is not None), f"{trial.name} and its request")
        paused_without = trial.state is TrialState.PAUSED and trial.checkpoint is None
        _hold(not paused_without or may_lack, f"{trial.name} is paused without a checkpoint")
    for number, attempt in state.attempts.items():
        _hold(attempt.number == number, f"attempt {number} has another lease")
        _hold(not attempt.is_lost, f"{attempt.lease} is of a lost worker")
        _hold(state.pool.is_current(attempt.lease.worker, attempt.lease.epoch), f"{attempt.lease} is of a lost worker")
        slot = state.pool.slots[attempt.lease.worker]
        _hold(attempt.end is not None or slot.lease == attempt.lease.number, f"{attempt.lease} and its slot")
        for trial_id in attempt.trials:
            _hold(state.open_attempts.get(trial_id) == number, f"trial {trial_id} and {attempt.lease}")
    for trial_id, number in state.open_attempts.items():
        _hold(trial_id in state.attempts[number].trials, f"trial {trial_id} runs under another lease")
    training = Counter(a.lease.number for a in state.attempts.values() if a.end is None)
    for slot in state.pool.slots.values():
        _hold(slot.lease is None or slot.lanes == training[slot.lease], f"worker {slot.worker} and its lanes")
        _hold((slot.state is SlotState.BUSY) == (slot.lease is not None), f"worker {slot.worker} and its lease")
        for follower in slot.followers:
            other = state.pool.slots[follower]
            is_one = other.leader == slot.worker and other.lease == slot.lease and not other.followers
            _hold(is_one, f"worker {follower} and the gang of worker {slot.worker}")
        leads = slot.leader is None or slot.worker in state.pool.slots[slot.leader].followers
        _hold(leads, f"worker {slot.worker} and its leader")
        _hold(not slot.held or slot.state is not SlotState.GONE, f"worker {slot.worker} is gone and keeps checkpoints")
        _hold(len(set(slot.held)) == len(slot.held) <= KEPT_CHECKPOINTS, f"what worker {slot.worker} keeps")
        for checkpoint in slot.held if slot.state is SlotState.IDLE else ():
            holder = state.pool.idle_holder(checkpoint)
            _hold(holder is not None and holder <= slot.worker, f"{checkpoint} and worker {slot.worker} that has it")
    holders = [trial.checkpoint for trial in state.trials] + [a.batch.load for a in state.attempts.values()]
    counted = Counter(checkpoint for checkpoint in (*holders, *state.imported) if checkpoint is not None)
    _hold(counted == state.references, "the references to checkpoints")
    _hold(not state.references.keys() & state.unreachable.keys(), "a checkpoint that a trial needs is to be deleted")
    if state.config.quota_bytes is not None:
        durable = state.references.keys() | state.unreachable.keys()
        _hold(state.usage.sizes.keys() == durable, "the checkpoints that a quota counts")
        _hold(state.usage.total_bytes == sum(state.usage.sizes.values()), "the bytes that a quota counts")
    _hold(state.busy.keys() == state.plan.blocked, "the nodes in which others train")
    _hold(not state.touched, "a lease was left without its news")


def _hold(is_true: bool, what: str) -> None:
    if not is_true:
        raise InternalError(f"Invariant broken: {what}. Please report this with the study's journal.")
