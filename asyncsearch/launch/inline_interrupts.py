"""The user's interrupts of trainings in the calling thread: Ctrl-C, and the end of a debugger."""

from __future__ import annotations

import bdb
import sys
from collections.abc import Callable

from asyncsearch.runner.process.sigterm import SigtermGuard


class NoInterrupts(SigtermGuard):
    """Leaves the signals of this process to its user."""

    def arm(self) -> None:
        """Do nothing."""


class InterruptedPack(NoInterrupts):
    """Tells a pack of the user's interrupt, which concerns all its lanes."""

    def __init__(self, interrupted: Callable[[BaseException], None]) -> None:
        super().__init__()
        self._interrupted = interrupted

    @property
    def is_received(self) -> bool:
        """Whether the exception that is being handled is the user's interrupt."""
        error = sys.exception()
        if not isinstance(error, KeyboardInterrupt | bdb.BdbQuit):
            return False
        self._interrupted(error)
        return True

    @is_received.setter
    def is_received(self, value: bool) -> None:
        """Keep nothing: it is asked for each exception."""
