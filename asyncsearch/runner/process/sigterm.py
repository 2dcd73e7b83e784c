"""SIGTERM in the runner, which unwinds only the user's code."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from asyncsearch.runner.process.fork_signals import handle
from asyncsearch.trainable import TrialStopped


class SigtermGuard:
    """Raises ``TrialStopped`` in the main thread while the user's code runs."""

    def __init__(self) -> None:
        self.is_received = False
        """Whether SIGTERM arrived during this training."""
        self._is_armed = self._is_shielded = False
        self._thread = threading.get_ident()

    def arm(self) -> None:
        """Begin a training. Set the handlers again, because the previous trial may have replaced them."""
        # Only the driver handles Ctrl-C. Not SIG_IGN, which programs inherit: none could be ended by SIGINT.
        handle(signal.SIGINT, lambda number, frame: None, signal.default_int_handler)
        handle(signal.SIGTERM, self._on_sigterm, signal.SIG_DFL)
        self.is_received = False
        self._is_armed = True

    def disarm(self) -> None:
        """End a training: the user's code no longer runs."""
        self._is_armed = False

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Let the block finish: half a message on the channel would make all later ones unreadable."""
        if threading.get_ident() != self._thread:  # no other thread is interrupted
            yield
            return
        self._is_shielded = True
        try:
            yield
        finally:
            self._is_shielded = False
        self.raise_if_received()

    def raise_if_received(self) -> None:
        """Raise ``TrialStopped`` if a shield deferred it."""
        if self.is_received and self._is_armed:
            raise TrialStopped("the agent sent SIGTERM")

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.is_received = True
        if not self._is_shielded:
            self.raise_if_received()
