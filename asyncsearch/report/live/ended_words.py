"""Where a trial stands once no run is in progress, in the words of the table. A journal alone does not tell it."""

from __future__ import annotations

from asyncsearch.report.live.status import StudyStatus
from asyncsearch.report.live.table import continue_command, driver_died_words
from asyncsearch.trial import TrialState


def head_words(status: StudyStatus, state: TrialState) -> str:
    """Return "was stopped early" or "is to be continued", where no run is in progress; else an empty text."""
    if state is TrialState.PAUSED and status.is_finished:
        return f"was {status.words(state)}"
    return f"is {status.words(state)}" if _goes_on(status, state) else ""


def continue_lines(status: StudyStatus, state: TrialState) -> list[str]:
    """Return lines that say why a trial does not train now, and the command that continues it; else none."""
    if not _goes_on(status, state):
        return []
    died = "" if status.driver_died_s is None else f"The search is {driver_died_words(status.driver_died_s)}. "
    return [f"{died}To go on:", f"    {continue_command(status)}"]


def _goes_on(status: StudyStatus, state: TrialState) -> bool:
    return status.is_unfinished and state in (TrialState.RUNNING, TrialState.WAITING)
