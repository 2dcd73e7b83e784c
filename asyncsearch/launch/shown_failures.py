"""Prints failures where they are raised, each once however many trials fail in the same way."""

from __future__ import annotations

import sys
import traceback
from types import TracebackType


class ShownFailures:
    """The failures of one run that were printed in full."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], str] = {}
        """Exception and line of code -> the first trial that failed there."""

    def show(self, trial: str, error: Exception) -> None:
        """Print the traceback from the user's first frame on, or in one line, and keep it for ``pdb.pm()``."""
        frames = None if error.__traceback__ is None else error.__traceback__.tb_next
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, frames
        key = (type(error).__name__, _line_of(frames))
        words = traceback.format_exception_only(error)[-1].strip()
        if key in self._first:
            sys.stderr.write(f"{trial} failed at the same line as {self._first[key]}: {words}\n")
            return
        self._first[key] = trial
        text = "".join(traceback.format_exception(type(error), error, frames))
        sys.stderr.write(f"{trial} failed; look around by: import pdb; pdb.pm()\n{text}")

    def has(self, text: str) -> bool:
        """Return whether the failure that a text with a traceback describes was printed in full."""
        return any(name in text and line and line in text for name, line in self._first)


def _line_of(frames: TracebackType | None) -> str:
    found = traceback.extract_tb(frames)
    return f'File "{found[-1].filename}", line {found[-1].lineno}' if found else ""
