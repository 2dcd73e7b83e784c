"""The next rung and the last value of each trial. 9 bytes a trial."""

from __future__ import annotations

import math
from array import array
from typing import Any

from asyncsearch.ids import TrialId

_ENDED = 0x80
_RUNG = 0x7F  # room for 126 rungs; max_resource = 2**64 has 65 at most


class Progress:
    """Rung and value of trials. Ids count from 0, so arrays hold them; others are unknown."""

    __slots__ = ("_marks", "_values")

    def __init__(self) -> None:
        self._marks = bytearray()  # 0: unknown; else 1 + index of its next rung, and perhaps _ENDED
        self._values = array("d")  # NaN: none

    def begin(self, trial: TrialId) -> None:
        """A trial exists, and trains towards the lowest rung."""
        self._grow(trial)
        self._marks[trial] = self._marks[trial] or 1

    def record(self, trial: TrialId, rung: int, value: float | None) -> None:
        """A trial reached a rung with this value, and the one above is its next."""
        self._grow(trial)
        self._values[trial] = math.nan if value is None else value
        self._marks[trial] = rung + 2

    def pass_rung(self, trial: TrialId, rung: int) -> None:
        """A trial reached a rung, and the one above is its next; its last value stays."""
        self._grow(trial)
        self._marks[trial] = rung + 2

    def set_value(self, trial: TrialId, value: float | None) -> None:
        """A trial has a new last value."""
        self._grow(trial)
        self._values[trial] = math.nan if value is None else value

    def end(self, trial: TrialId) -> None:
        """A trial will never train again."""
        self.begin(trial)
        self._marks[trial] |= _ENDED

    def knows(self, trial: TrialId) -> bool:
        """Return whether the trial ever began."""
        return trial < len(self._marks) and self._marks[trial] > 0

    def has_ended(self, trial: TrialId) -> bool:
        """Return whether the trial will never train again."""
        return self.knows(trial) and self._marks[trial] >= _ENDED

    def next_rung(self, trial: TrialId) -> int:
        """Return the index of the lowest rung that the trial has not reached."""
        return (self._marks[trial] & _RUNG) - 1 if self.knows(trial) else 0

    def value(self, trial: TrialId) -> float | None:
        """Return the last finite value, or None."""
        value = self._values[trial] if self.knows(trial) else math.nan
        return value if math.isfinite(value) else None

    def snapshot(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        known = [trial for trial in range(len(self._marks)) if self._marks[trial]]
        return {
            "trials": known,
            "marks": [self._marks[trial] for trial in known],
            "values": [self.value(TrialId(trial)) for trial in known],
        }

    @classmethod
    def restored(cls, snapshot: dict[str, Any]) -> Progress:
        """Return the progress that ``snapshot`` described."""
        progress = cls()
        for trial, mark, value in zip(snapshot["trials"], snapshot["marks"], snapshot["values"], strict=True):
            progress.set_value(trial, value)
            progress._marks[trial] = mark
        return progress

    def _grow(self, trial: TrialId) -> None:
        while trial >= len(self._marks):
            self._marks.append(0)
            self._values.append(math.nan)
