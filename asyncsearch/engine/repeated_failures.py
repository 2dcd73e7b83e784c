"""Failures and losses that repeat themselves: of a trainable at one line, of a trial, of a whole search. Pure.

An exception at one line in many trials ends the run early: the trainable cannot work. Losses of one trial at one place
in a row say something about the trial, losses after progress something about the machines: preemptions over days fail
no trial. A search in which each trial that went on has failed has failed as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

import msgspec

from asyncsearch.events import TrainingEnded
from asyncsearch.ids import TrialId, WorkerId
from asyncsearch.trial import Trial, TrialState

FEWEST = 3
_PATH_CHARS = 1_000
_FRAME = re.compile(r'^[\s|]*File "(?P<file>[^"]+)", line (?P<line>\d{1,9})', re.MULTILINE)
"""A frame; those of a group of exceptions stand behind rules."""
_INSTALLED = re.compile(r"[/\\](?:(?:site|dist)-packages|lib(?:64)?[/\\]python3\.\d+)[/\\]|^<frozen ", re.IGNORECASE)
_IN_WORDS = {
    "no_report": "no report",
    "bad_report": "a report that cannot be used",
    "cannot_pause": "a trial that cannot be paused",
    "exit": "sys.exit",
}
"""Kinds of failures that are not the name of an exception."""
_WITHOUT_LINE = ("no_report", "bad_report")
"""Failures that say where they come from without a traceback."""


class RepeatedFailures(msgspec.Struct):
    """Failures of the run in progress, and whether any training came to its end."""

    counts: dict[str, int] = {}
    """Exception and line in words -> how many trainings failed there for good."""
    has_trained: bool = False
    """Whether a training reached its target, or its function returned: then the trainable works for some trials."""
    claims: dict[str, list[WorkerId]] = {}
    """Claims that would concern every trial, an exception and its line or the name of an error -> the workers each of
    which may have made it every time, none if two workers make it. Any rank may have made the claim of its gang."""

    def add(self, end: TrainingEnded, workers: Collection[WorkerId]) -> None:
        """Count a training of ``workers`` that failed for good; one that names no line says too little."""
        place = place_of(end)
        if place:
            self.counts[place] = self.counts.get(place, 0) + 1
            self.claim(place, workers)

    def claim(self, claim: str, workers: Collection[WorkerId]) -> None:
        """Note a claim about every trial by one of the workers that train together."""
        self.claims[claim] = [worker for worker in self.claims.get(claim, workers) if worker in workers]

    def is_agreed(self, claim: str, voices: int) -> bool:
        """Return whether two workers say it, or one where there is one voice: one alone may be broken, or lie."""
        return claim in self.claims and (voices < 2 or not self.claims[claim])

    def reason(self, end: TrainingEnded, parallelism: int, voices: int) -> str:
        """Return why the run should end now that this training has failed. Empty if it should go on.

        Args:
            end: of the training.
            parallelism: of the run.
            voices: as in ``StudyState.voices``.
        """
        place = place_of(end)
        count = self.counts.get(place, 0)
        if self.has_trained or count < max(FEWEST, parallelism + 1) or not self.is_agreed(place, voices):
            return ""
        return f"trials fail in the same way, and none has finished: {place}"  # more may fail until it ends: no count


def place_of(end: TrainingEnded) -> str:
    """Return the exception and the line of a failure in words. Empty if it does not say."""
    kind = _IN_WORDS.get(end.error_kind, end.error_kind)
    if line := line_in(end.error):
        return f"{kind} in {line}"
    return kind if end.error_kind in _WITHOUT_LINE else ""


def line_in(error: str) -> str:
    """Return the last file and line of the user's own in a traceback, else of a library. Empty if it has none."""
    frames = list(_FRAME.finditer(error))
    users = [frame for frame in frames if _INSTALLED.search(frame["file"]) is None] or frames
    return f'"{users[-1]["file"][-_PATH_CHARS:]}", line {users[-1]["line"]}' if users else ""


MOST_TOGETHER = 1
"""A trial that lost more attempts in a row trains alone: if it ends its process, it alone pays, and is charged."""


class ConsecutiveLosses(msgspec.Struct, frozen=True):
    """The losses of one trial without progress between them.

    A loss together with other trials of the process says nothing about this one: it is tried again, and alone before it
    is charged.
    """

    count: int
    """How many, at least 1."""
    resource: int
    """Resource of the trial at each of them, in units of training reported."""
    is_shared: bool = False
    """Whether the last one was a loss of other trials' trainings too, which were in its process."""
    has_hung: bool = False
    """Whether at one of them they took longer than a trial may."""

    def is_charged(self, most: int) -> bool:
        """Return whether the trial is to blame, with ``most`` losses allowed in a row: never for a shared one."""
        return self.count > most and not self.is_shared

    def trains_alone(self, resource: int, most: int) -> bool:
        """Return whether a trial, now at ``resource``, is to train in a process of its own next.

        Args:
            resource: where it is; progress since a hang shows that the trial did not hang there.
            most: losses in a row that are allowed.
        """
        return self.count > min(MOST_TOGETHER, most) or (self.has_hung and resource == self.resource)


def after_loss(
    before: ConsecutiveLosses | None, resource: int, *, is_shared: bool = False, has_hung: bool = False
) -> ConsecutiveLosses:
    """Return the count after one more loss at ``resource``; ``before`` is None if no attempt was lost so far.

    Any other resource than at the loss before begins a new count: between losses it only grows, except where the trial
    goes on from another one's checkpoint, which is new training as well.
    """
    if before is None or before.resource != resource:
        return ConsecutiveLosses(1, resource, is_shared, has_hung)
    return ConsecutiveLosses(before.count + 1, resource, is_shared, has_hung or before.has_hung)


class Promoted(msgspec.Struct):
    """The outcomes of promotions so far."""

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
    """Return how a search that has ended failed as a whole. None if it did not.

    Args:
        trials: all of the search, none of which trains.
        promoted: the outcomes of promotions. None if it was stopped, so that more might have come.
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
