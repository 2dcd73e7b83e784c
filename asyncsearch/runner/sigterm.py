"""SIGTERM in the runner: it unwinds the user's code, and nothing else."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from asyncsearch.trainable import TrialStopped


class SigtermGuard:
    """Raises ``TrialStopped`` in the main thread while the user's code runs."""

    def __init__(self) -> None:
        self.is_received = False
        """Whether SIGTERM came during this training."""
        self._is_armed = False
        self._is_shielded = False
        self._pid = os.getpid()

    def arm(self) -> None:
        """Begin a training. The handlers are set anew: the trial before may have set its own."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's business
        signal.signal(signal.SIGTERM, self._on_sigterm)
        self.is_received = False
        self._is_armed = True

    def disarm(self) -> None:
        """The user's code does not run any more."""
        self._is_armed = False

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Let what is inside finish: half a message on the channel would make all later ones unreadable."""
        self._is_shielded = True
        try:
            yield
        finally:
            self._is_shielded = False
        self.raise_if_received()

    def raise_if_received(self) -> None:
        """Raise what a shield held back."""
        if self.is_received and self._is_armed:
            raise TrialStopped("the agent sent SIGTERM")

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        del frame
        if os.getpid() != self._pid:  # a child that was forked, such as a DataLoader's, ends as any process does
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self.is_received = True
        if not self._is_shielded:
            self.raise_if_received()
