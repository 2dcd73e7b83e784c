"""Ctrl-C while a search runs: counted, passed on to the driver, and raised only inside the user's own code.

An exception between any two steps of the main thread could leave a search without an owner. So the handler raises
nothing, and the function that runs the search raises ``KeyboardInterrupt`` once the search has ended.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from asyncsearch.driver.loop import Driver
from asyncsearch.driver.wakeup import Wakeup
from asyncsearch.events import StopRequested
from asyncsearch.runner.process.signals import handling
from asyncsearch.sentences import show_in_words

GRACE_S = 20.0
"""How long workers may take to stop after the first Ctrl-C."""


class Interrupts:
    """How often Ctrl-C was pressed, and of how many presses the driver was notified."""

    def __init__(self) -> None:
        self.count = self.notified = 0
        self.wakeups: tuple[Wakeup, ...] = ()
        """Set at each press; they wake the thread that watches the run."""
        self._is_armed = False

    def add(self) -> None:
        """Count a press. It takes no lock, so a signal handler and any thread may call it.

        Raises:
            KeyboardInterrupt: ``interruptible`` runs a function in this thread; at the first press only.
        """
        self.count += 1
        for wakeup in self.wakeups:
            wakeup.set()
        if self._is_armed:
            self._is_armed = False
            raise KeyboardInterrupt

    def notify(self, driver: Driver) -> bool:
        """Ask the search to stop at the first press; at the second one, wait for workers no longer.

        Returns:
            Whether there was a press of which the driver was not notified.
        """
        is_news = self.notified < self.count
        while self.notified < self.count:
            self.notified += 1
            driver.post(StopRequested("it was interrupted"))
            driver.give_up_after(GRACE_S if self.notified == 1 else 0.0)
        return is_news

    def interruptible(self, function: Callable[[], None]) -> None:
        """Call a function that a press interrupts by KeyboardInterrupt, which is caught here.

        A KeyboardInterrupt from elsewhere counts as a press. The function is not called while the driver has not been
        notified of a press.
        """
        before = self.count
        try:
            try:
                self._is_armed = True
                if self.notified == self.count:
                    function()
            finally:
                self._is_armed = False
        except KeyboardInterrupt:
            self.count = max(self.count, before + 1)


def interruption() -> KeyboardInterrupt:
    """Return the exception that a search raises once it has ended after Ctrl-C; nobody needs its traceback.

    IPython, and Python itself where nobody catches it, show its one line. The exit code is that of Ctrl-C, as ever.
    """
    error = KeyboardInterrupt("the search was interrupted; its results are kept")
    show_in_words(error)
    return error


@contextmanager
def interrupts_to(press: Callable[[], None]) -> Iterator[None]:
    """Let Ctrl-C call ``press`` and nothing else: PySpark's handler would cancel the jobs of the workers.

    Only the main thread gets signals; in any other thread nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with handling(signal.SIGINT, lambda number, frame: press(), signal.default_int_handler):
        yield
