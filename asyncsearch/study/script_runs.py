"""Scripts that are read for their study: the top level is carried out as far as the first run, which is not begun."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass
class ScriptRun:
    """The run to which a script has come."""

    study: Any = None
    """The ``Study`` that it would run, whose module imports this one; None if it has run nothing."""
    num_trials: int | None = None
    parallelism: int | None = None


class RunReached(BaseException):
    """Unwinds a script that has come to its run; ``except Exception`` in it does not swallow this."""


_reading: ContextVar[ScriptRun | None] = ContextVar("asyncsearch_reading", default=None)


@contextmanager
def read_only() -> Iterator[ScriptRun]:
    """Have the first run inside the ``with`` end it, and yield what is known of that run then."""
    found = ScriptRun()
    token = _reading.set(found)
    try:
        yield found
    except RunReached:
        pass
    finally:
        _reading.reset(token)


def note_run(study: Any, num_trials: int | None, parallelism: int | None) -> None:
    """Keep a search from starting while its script is read for its study.

    Raises:
        RunReached: the script is being read.
    """
    found = _reading.get()
    if found is not None:
        found.study, found.num_trials, found.parallelism = study, num_trials, parallelism
        raise RunReached
