"""The life of a trial, as one literal table.

Rule 1: every change of a trial's state is a lookup here; a transition that is not in the table cannot happen.
Rule 2: pure, as ``asyncsearch.engine.handling`` says.

A trial begins as WAITING. A worker takes it (RUNNING). Then it is paused at its target and perhaps promoted (back to
WAITING), or it ends: COMPLETED, STOPPED or FAILED. An attempt that was lost, failed with retries left, or was
interrupted moves it back to WAITING, and it continues from its newest checkpoint. Another trial may train the stages
that it waits for, so it may also move from WAITING to every state that RUNNING leads to.
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
    (TrialState.PAUSED, TrialState.STOPPED): "others went on in its place, and that is decided for ever",
}


def check_transition(trial: TrialId, source: TrialState, to: TrialState, story: str) -> None:
    """Check that a trial may change its state.

    Raises:
        InvalidTransitionError: the table has no such edge; the message names the trial, both states and the last event.
    """
    if (source, to) not in TRANSITIONS:
        legal = ", ".join(sorted(b.value for a, b in TRANSITIONS if a is source)) or "nothing"
        raise InvalidTransitionError(
            f"{trial_name(trial)} cannot move from {source.value} to {to.value} (from there: {legal}). "
            f"Last: {story or 'nothing happened to it yet'}. Please report this with the study's journal."
        )
