"""The exception of an objective, on its way from the worker to the program."""

from __future__ import annotations

import pickle
import traceback
from typing import NamedTuple

from asyncsearch.programs.pickles import pickled


class ObjectiveError(Exception):
    """An objective raised an exception that cannot be sent to the driver; its text has the traceback."""


class TracebackError(Exception):
    """The traceback of an objective's exception, as text: that of another process is no object here."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"


class Raised(NamedTuple):
    """An exception that can be sent."""

    kind: str
    """Its class, as ``str`` gives it."""
    words: str
    text: str
    """Its traceback. Empty if the exception has it itself."""
    error: BaseException | None
    """The exception itself. None if it cannot be pickled."""

    def exception(self) -> BaseException:
        """Return the exception, with the worker's traceback, if it has one, as its cause."""
        error = ObjectiveError(self.text) if self.error is None else self.error
        if self.text:
            error.__cause__ = TracebackError(self.text)
        return error


def raised_by(error: BaseException) -> Raised:
    """Return an exception in a form that can be sent, without the first frame of its traceback, which is ours."""
    frames = error.__traceback__ and error.__traceback__.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames))
    return Raised(str(type(error)), str(error), text, error if travels(error) else None)


def travels(error: BaseException | None) -> bool:
    """Return whether an exception can be pickled, and is itself afterwards."""
    try:
        return error is None or type(pickle.loads(pickled(error))) is type(error)  # noqa: S301  # its own
    except Exception:
        return False
