"""The life of a trial: one literal table.

Rule 1: every change of a trial's state is a lookup here; what the table does not have cannot happen.
Rule 2: pure, as ``asyncsearch.engine.handling`` says.

A trial is born WAITING. A worker takes it (RUNNING). From there it is paused at its target and perhaps promoted
(back to WAITING), or it ends: COMPLETED, STOPPED or FAILED. An attempt that was lost, failed with tries left, or was
interrupted puts it back to WAITING, and it goes on from its newest checkpoint. What it waits for may be trained with
another trial, so it may also leave WAITING to wherever that leads it.
"""

from __future__ import annotations

from asyncsearch.errors import InvalidTransitionError
from asyncsearch.ids import TrialId, trial_name
from asyncsearch.trial import TrialState

TRANSITIONS: dict[tuple[TrialState, TrialState], str] = {
    (TrialState.WAITING, TrialState.RUNNING): "a worker took it",
    (TrialState.WAITING, TrialState.PAUSED): "it is at its target, trained with another trial",
    (TrialState.WAITING, TrialState.COMPLETED): "it reached its end, trained with another trial",
    (TrialState.WAITING, TrialState.STOPPED): "it was not worth finishing, as what it shares has shown",
    (TrialState.WAITING, TrialState.FAILED): "what it shares with another trial failed",
    (TrialState.RUNNING, TrialState.PAUSED): "it is at its target, saved",
    (TrialState.RUNNING, TrialState.COMPLETED): "it reached its end",
    (TrialState.RUNNING, TrialState.STOPPED): "it was not worth finishing",
    (TrialState.RUNNING, TrialState.FAILED): "it failed and has no tries left",
    (TrialState.RUNNING, TrialState.WAITING): "the attempt was lost, failed or interrupted",
    (TrialState.PAUSED, TrialState.WAITING): "it was promoted, or took over another's checkpoint",
}


def check_transition(trial: TrialId, source: TrialState, to: TrialState, story: str) -> None:
    """Check that a trial may move.

    Raises:
        InvalidTransitionError: the table has no such edge; names the trial, both states and what happened last.
    """
    if (source, to) not in TRANSITIONS:
        legal = ", ".join(sorted(b.value for a, b in TRANSITIONS if a is source)) or "nothing"
        raise InvalidTransitionError(
            f"{trial_name(trial)} cannot move from {source.value} to {to.value} (from there: {legal}). "
            f"Last: {story or 'nothing happened to it yet'}. Please report this with the study's journal."
        )
