"""SIGTERM in the runner, which unwinds only the user's code."""

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
        """Whether SIGTERM arrived during this training."""
        self._is_armed = self._is_shielded = False
        self._pid = os.getpid()

    def arm(self) -> None:
        """Begin a training. Set the handlers again, because the previous trial may have replaced them."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the driver handles Ctrl-C
        signal.signal(signal.SIGTERM, self._on_sigterm)
        self.is_received = False
        self._is_armed = True

    def disarm(self) -> None:
        """End a training: the user's code no longer runs."""
        self._is_armed = False

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Let the block finish: half a message on the channel would make all later ones unreadable."""
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
        del frame
        if os.getpid() != self._pid:  # a forked child, such as a DataLoader's, must end as any process does
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self.is_received = True
        if not self._is_shielded:
            self.raise_if_received()
