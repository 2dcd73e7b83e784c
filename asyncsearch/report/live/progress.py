"""Says what is being done where it takes long enough for people to wonder."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

from asyncsearch.report.live.display import in_notebook

AFTER_S = 0.5
"""Time after which a step is announced: what is over sooner needs no words."""


@contextlib.contextmanager
def announced(sentence: str, after_s: float = AFTER_S) -> Iterator[None]:
    """Print a sentence if what is done inside the ``with`` takes longer than ``after_s``.

    It goes to the standard error, so that a command's output stays what it is, and in a notebook to the cell.
    """
    timer = threading.Timer(after_s, _say, (sentence,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _say(sentence: str) -> None:
    out = sys.stdout if in_notebook() else sys.stderr
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or there is none
        out.write(f"{sentence}\n")
        out.flush()
