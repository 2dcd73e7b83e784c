"""What ends and losses say about trials: what would concern every trial, and which trial may be to blame. Pure.

``learning`` applies these facts. One worker's word ends no search: ``RepeatedFailures.is_agreed`` says who must agree.
"""

from __future__ import annotations

from asyncsearch.engine.attempts import FATAL_KINDS, Attempt
from asyncsearch.engine.consecutive_losses import after_loss
from asyncsearch.engine.state import StudyState
from asyncsearch.events import Outcome, TrainingEnded
from asyncsearch.ids import WorkerId
from asyncsearch.trial import Trial


def note_claims(state: StudyState, attempt: Attempt, end: TrainingEnded) -> None:
    """Note what an end says that would concern every trial."""
    workers, repeated = state.pool.workers_of(end.lease.worker), state.repeated
    if end.outcome is Outcome.FAILED and end.error_kind in (*FATAL_KINDS, "checkpoint"):
        repeated.claim(FATAL_KINDS.get(end.error_kind, "StoreError"), workers)
    if end.outcome is Outcome.REACHED and end.checkpoint_resource is None:
        repeated.claim("CannotPauseError", workers)
    has_ended = end.outcome in (Outcome.REACHED, Outcome.RETURNED)
    if has_ended and any(not state.trials[number].value_resource for number in attempt.trials):
        repeated.claim("MetricNotReportedError", workers)


def count_losses(
    state: StudyState,
    attempt: Attempt,
    trials: list[Trial],
    *,
    lost: WorkerId | None = None,
    has_hung: bool = False,
    is_owing: bool = False,
) -> None:
    """Count what a worker lost as a loss of trials, unless the run is ending: then nothing waits for its workers.

    ``lost`` is the worker that is gone, of a gang any rank; None: the one that holds the lease, which lives on.
    A worker that still owed the checkpoint of a training that had ended may be to blame itself: ``is_owing``.
    """
    is_shared, most = attempt.lanes > 1, state.config.max_losses
    worker = attempt.lease.worker if lost is None else lost
    for trial in [] if state.stopping else trials:
        trial.losses += 1
        before = state.consecutive_losses.get(trial.id)
        losses = after_loss(before, trial.resource, is_shared=is_shared, has_hung=has_hung)
        state.consecutive_losses[trial.id] = losses
        if losses.is_charged(most) and not is_owing:
            state.pool.slots[worker].fruitless = 0  # the trial is to blame, not the worker
