"""The invariants of ``StudyState``, derived anew from first principles. Tests call it after every event. Pure."""

from __future__ import annotations

from asyncsearch.engine.pool import SlotState
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import InternalError
from asyncsearch.trial import TrialState


def check(state: StudyState) -> None:
    """Raise if any collection contradicts another.

    Raises:
        InternalError: names the invariant and the trial, lease or worker that breaks it.
    """
    for number, trial in enumerate(state.trials):
        _hold(trial.id == number, f"trial {number} has id {trial.id}")
        _hold((trial.state is TrialState.WAITING) == (trial.id in state.waiting), f"{trial.name} and the waiting list")
        _hold((trial.state is TrialState.RUNNING) == (trial.id in state.open_attempts), f"{trial.name} and its attempt")
        paused_without = trial.state is TrialState.PAUSED and trial.checkpoint is None
        _hold(not paused_without, f"{trial.name} is paused without a checkpoint")
    for lease_number, attempt in state.attempts.items():
        _hold(attempt.lease.number == lease_number, f"attempt {lease_number} has another lease")
        _hold(state.pool.is_current(attempt.lease.worker, attempt.lease.epoch), f"{attempt.lease} is of a lost worker")
        is_open = state.open_attempts.get(attempt.trial) == lease_number
        _hold(is_open != attempt.is_closed, f"{attempt.lease} is both open and closed")
        slot = state.pool.slots[attempt.lease.worker]
        _hold((attempt.end is None) == (slot.lease == lease_number), f"{attempt.lease} and its slot")
    for trial_id, lease_number in state.open_attempts.items():
        _hold(lease_number in state.attempts, f"trial {trial_id} runs under an unknown lease")
    for slot in state.pool.slots.values():
        _hold((slot.state is SlotState.BUSY) == (slot.lease is not None), f"worker {slot.worker} and its lease")
    live = {trial.checkpoint for trial in state.trials if not trial.state.is_finished and trial.checkpoint is not None}
    _hold(not live & set(state.unreachable), "a checkpoint that a trial needs is to be deleted")


def _hold(is_true: bool, what: str) -> None:
    if not is_true:
        raise InternalError(f"Invariant broken: {what}. Please report this with the study's journal.")
