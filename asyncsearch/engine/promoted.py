"""What became of the trials that went on: a search in which each of them failed has failed as a whole. Pure."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from asyncsearch.engine.repeated_failures import FEWEST, line_in
from asyncsearch.ids import TrialId
from asyncsearch.trial import Trial, TrialState


class Promoted(msgspec.Struct):
    """What became of promotions so far."""

    unfinished: dict[TrialId, None] = {}
    """Promoted trials that have neither reached their target nor failed."""
    failed: int = 0
    """How many promoted trials failed on their way."""
    has_reached: bool = False
    """Whether one has reached its target, was stopped there, or came to its end."""
    place: str = ""
    """The last line of the last failure of any trial, and where it was raised."""

    def began(self, trial: TrialId) -> None:
        """A trial was promoted."""
        self.unfinished[trial] = None

    def moved(self, trial: Trial, detail: str) -> None:
        """A trial changed its state; ``detail`` is the traceback of a failure."""
        if trial.state is TrialState.FAILED:
            line = line_in(detail)
            self.place = f"{trial.reason.rstrip('.')}{f', in {line}' if line else ''}"
        if trial.state in (TrialState.WAITING, TrialState.RUNNING) or trial.id not in self.unfinished:
            return
        del self.unfinished[trial.id]
        if trial.state is TrialState.FAILED:
            self.failed += 1
        else:
            self.has_reached = True


class WholeFailure(NamedTuple):
    """A search that failed as a whole."""

    who: str
    """Which trials failed, e.g. "every promoted trial"."""
    words: str
    """How many, and where, e.g. "all 3 promoted trials failed: ValueError: exploded, in "train.py", line 7"."""


def failed_as_a_whole(trials: list[Trial], promoted: Promoted | None) -> WholeFailure | None:
    """Return how a search that has ended failed as a whole; None: it did not.

    Args:
        trials: all of the search, none of which trains.
        promoted: what became of promotions; None: it was stopped, so that more might have come.
    """
    failed = sum(1 for trial in trials if trial.state is TrialState.FAILED)
    if not failed:
        return None
    if failed == len(trials):
        return WholeFailure("every trial", "the only trial failed" if failed == 1 else f"all {failed} trials failed")
    if promoted is None or promoted.has_reached:
        return None
    is_complete = any(trial.state is TrialState.COMPLETED for trial in trials)
    if promoted.failed and (not is_complete or promoted.failed >= FEWEST):
        count = f"all {promoted.failed} promoted trials" if promoted.failed > 1 else "the only promoted trial"
        return WholeFailure("every promoted trial", f"{count} failed: {promoted.place}")
    if not is_complete and _is_none_beyond(trials):
        count = f"all {failed} trials that were not stopped" if failed > 1 else "the only trial that was not stopped"
        return WholeFailure("every trial that was not stopped", f"{count} failed: {promoted.place}")
    return None


def _is_none_beyond(trials: list[Trial]) -> bool:
    """Return whether trials were stopped at one resource only, and those that trained on from there have failed."""
    stopped = {trial.resource for trial in trials if trial.state is TrialState.STOPPED}
    others = [trial for trial in trials if trial.state is not TrialState.STOPPED]
    are_failed = all(trial.state is TrialState.FAILED for trial in others)
    return len(stopped) == 1 and are_failed and any(trial.resource >= max(stopped) for trial in others)
