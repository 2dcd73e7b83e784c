"""Interrupts a trial's thread: what SIGTERM is to a trial's process.

Python raises an exception in another thread at one of that thread's next steps. A thread that waits in compiled code
takes none until it is back; what waits for Spark is woken by the end of its job.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from asyncsearch.runner.process.signals import SigtermGuard
from asyncsearch.trainable import TrialStopped


class ThreadGuard(SigtermGuard):
    """Raises ``TrialStopped`` in the thread that is armed, while the user's code runs in it."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._depth = 0
        """How many shields the thread is in; only that thread sets it."""
        self._is_deferred = False
        """Whether an interrupt came in a shield, and has not been raised."""

    def arm(self) -> None:
        """Begin a training in the calling thread."""
        with self._lock:
            self._thread = threading.get_ident()
            self._is_armed = True

    def disarm(self) -> None:
        """End the training; an interrupt that was sent before is taken here, where it does no harm."""
        with self._lock:
            self._is_armed = False
        try:
            _take_interrupt()
        except TrialStopped:
            return

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Let the block finish: a lock that stays held, or half a message, would break what comes later."""
        if threading.get_ident() != self._thread or not self._is_armed:
            yield
            return
        before = self._depth
        try:
            with self._lock:
                self._depth = before + 1
            _take_interrupt()  # one that was sent before the lock was had comes here, not in the block
        except BaseException:
            self._depth = before
            raise
        try:
            yield
        finally:
            self._depth = before
        self.raise_if_received()

    def raise_if_received(self) -> None:
        """Raise ``TrialStopped`` once for the interrupts that shields deferred: what cleans up after it may print."""
        if self._is_deferred and self._is_armed and not self._depth:
            self._is_deferred = False
            raise TrialStopped("the training is interrupted")

    def interrupt(self) -> None:
        """Interrupt the training, now or at the end of its shield; any other thread may call this."""
        with self._lock:
            self.is_received = True
            if self._is_armed and self._depth:
                self._is_deferred = True
            elif self._is_armed:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(TrialStopped))


def _take_interrupt() -> None:
    """Return at once: the interpreter raises what waits for this thread when it enters a function."""
