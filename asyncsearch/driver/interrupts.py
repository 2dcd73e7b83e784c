"""Ctrl-C while a search runs: counted, forwarded to the driver, and raised only where the user's own code trains.

An exception that may come between any two steps of the main thread would leave a search that nobody owns. So the
handler raises nothing, and whoever runs a search raises ``KeyboardInterrupt`` once it has ended.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from asyncsearch.driver.loop import Driver
from asyncsearch.driver.wakeup import Wakeup
from asyncsearch.events import StopRequested

GRACE_S = 20.0
"""How long workers may take to stop after the first press."""


class Interrupts:
    """How often Ctrl-C was pressed, and how many presses the driver knows of."""

    def __init__(self) -> None:
        self.count = self.forwarded = 0
        self.wakeups: tuple[Wakeup, ...] = ()
        """Wake the thread that watches the run."""
        self._is_armed = False

    def press(self) -> None:
        """Count one. It takes no lock, so a signal handler may call it, and any thread.

        Raises:
            KeyboardInterrupt: what ``interruptible`` was given runs in this thread; at the first press only.
        """
        self.count += 1
        for wakeup in self.wakeups:
            wakeup.set()
        if self._is_armed:
            self._is_armed = False
            raise KeyboardInterrupt

    def forward(self, driver: Driver) -> bool:
        """Ask the search to stop at the first press; at the second one, wait for workers no longer.

        Returns:
            Whether there was a press to forward.
        """
        is_news = self.forwarded < self.count
        while self.forwarded < self.count:
            self.forwarded += 1
            driver.post(StopRequested("it was interrupted"))
            driver.give_up_after(GRACE_S if self.forwarded == 1 else 0.0)
        return is_news

    def interruptible(self, function: Callable[[], None]) -> None:
        """Call a function that a press breaks by KeyboardInterrupt, which ends here. One from elsewhere is a press too.

        It is not called while a press is not forwarded yet.
        """
        before = self.count
        try:
            try:
                self._is_armed = True
                if self.forwarded == self.count:
                    function()
            finally:
                self._is_armed = False
        except KeyboardInterrupt:
            self.count = max(self.count, before + 1)


@contextmanager
def interrupts_to(press: Callable[[], None]) -> Iterator[None]:
    """Have Ctrl-C call ``press`` and do no more: PySpark's handler would cancel the jobs of the workers.

    Outside the main thread, which alone gets signals, nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGINT, lambda number, frame: press())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler if former is None else former)
