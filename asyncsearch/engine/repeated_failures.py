"""Counts failures of one exception at one line, so that a trainable that cannot work ends the run early. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

from asyncsearch.events import TrainingEnded
from asyncsearch.ids import WorkerId

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
    """What failed in the run in progress, and whether any training came to its end."""

    counts: dict[str, int] = {}
    """Exception and line in words -> how many trainings failed there for good."""
    has_trained: bool = False
    """Whether a training reached its target, or its function returned: then the trainable works for some trials."""
    claims: dict[str, list[WorkerId]] = {}
    """What would concern every trial, an exception and its line or the name of an error -> the workers each of which
    may have said it every time; none: two workers say so. Any rank of a gang may have said what its gang says."""

    def add(self, end: TrainingEnded, workers: Collection[WorkerId]) -> None:
        """Count a training of ``workers`` that failed for good; one that names no line says too little."""
        place = place_of(end)
        if place:
            self.counts[place] = self.counts.get(place, 0) + 1
            self.claim(place, workers)

    def claim(self, what: str, workers: Collection[WorkerId]) -> None:
        """One of the workers that train together says something that would concern every trial."""
        self.claims[what] = [worker for worker in self.claims.get(what, workers) if worker in workers]

    def is_agreed(self, what: str, voices: int) -> bool:
        """Return whether two workers say it, or one where there is one voice: one alone may be broken, or lie."""
        return what in self.claims and (voices < 2 or not self.claims[what])

    def reason(self, end: TrainingEnded, parallelism: int, voices: int) -> str:
        """Return why the run should end now that this training has failed; empty: it should go on.

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
    """Return the exception and the line of a failure in words; empty: it does not say."""
    kind = _IN_WORDS.get(end.error_kind, end.error_kind)
    if line := line_in(end.error):
        return f"{kind} in {line}"
    return kind if end.error_kind in _WITHOUT_LINE else ""


def line_in(error: str) -> str:
    """Return the last file and line of the user's own in a traceback, else of a library; empty: it has none."""
    frames = list(_FRAME.finditer(error))
    users = [frame for frame in frames if _INSTALLED.search(frame["file"]) is None] or frames
    return f'"{users[-1]["file"][-_PATH_CHARS:]}", line {users[-1]["line"]}' if users else ""
