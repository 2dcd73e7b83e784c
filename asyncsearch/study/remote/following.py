"""A driver in the cluster as its client sees it: by its board alone, which it writes into the store.

It may be one that another client has begun, which has died or is away. Such a driver is followed to its end before
anything else is asked of the cluster: its tasks hold the slots that a look at the executors would wait for.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable

from asyncsearch.driver.interrupts import GRACE_S, Interrupts, interruption, interrupts_to
from asyncsearch.driver.threads import Wakeup
from asyncsearch.errors import StoreError, StudyExistsError
from asyncsearch.launch.base_launcher import Launcher
from asyncsearch.report.live.display import Display
from asyncsearch.store.base_store import Store
from asyncsearch.study.remote.board import STOP, Board, BoardReader, read_board
from asyncsearch.study.remote.kept_tasks import KeptWorkers
from asyncsearch.study.runnable import RunnableStudy

_log = logging.getLogger(__name__)

LOOK_S = 0.5
_DEAD_AFTER_S = 15.0
"""Silence of another client's driver after which it counts as dead; it writes every 3 s, if its store lets it."""
_STOPPED_WITHIN_S = GRACE_S + 5.0
"""Time that a driver has to end a search after Ctrl-C. Then its task is cancelled."""


class Follower:
    """Shows what drivers of a study say, begins the workers that they lack, and passes on Ctrl-C."""

    def __init__(self, study: RunnableStudy, store: Store, display: Display, workers: KeptWorkers) -> None:
        self.study, self.store, self.display, self.workers = study, store, display, workers
        self.reader = BoardReader(store, display)
        self.interrupts = Interrupts()
        self.news = Wakeup()
        """Set when there is something to look at, or Ctrl-C was pressed."""
        self.interrupts.wakeups = (self.news,)
        self._stop_asked_s: float | None = None

    def follow_other(self) -> bool:
        """Follow a driver that is not this client's to its end, and return whether there was one.

        It is of another client, which it may outlive; or it counts as lost and goes on, out of the cluster's sight.
        """
        found = read_board(self.store)
        if found is None or not goes_on(found) or not self.store.is_locked():
            return False
        alive_s, first, is_followed = time.monotonic(), found.beat, False
        while goes_on(found) and time.monotonic() - alive_s < _DEAD_AFTER_S:
            self.stop_if_asked(found.attempt, lambda: None)
            self.wait(LOOK_S)
            if not is_followed:
                found = read_board(self.store) or found
                if found.beat == first:
                    continue
                is_followed = True
                if not self.study.resume:
                    raise StudyExistsError(
                        f"{self.store.shown} holds a study whose driver runs in the cluster. Go on with it by "
                        f"Study.resume({self.store.shown!r}) or Study(..., resume=True), or choose another store=."
                    )
                self.display.warn(["A driver of this search runs in the cluster already: this run follows it."])
                self.workers.begin()
            if self.look(found.attempt):
                alive_s, found = time.monotonic(), self.reader.last or found
        self.workers.pause()
        return is_followed

    def wait(self, seconds: float) -> None:
        """Wait until there is something to look at, or so long."""
        self.news.wait(seconds)
        self.news.clear()

    def look(self, attempt: str) -> bool:
        """Show the news of a driver, and return whether it has said anything since the last look."""
        try:
            return self.reader.look(attempt)
        except StoreError as error:  # the driver decides how long it is waited for
            _log.info("The board cannot be read: %s", error)
            return False

    def begin_driver(self) -> None:
        """Note that another driver is to be asked from now on to stop."""
        self._stop_asked_s = None

    def stop_if_asked(self, attempt: str, cancel: Callable[[], None]) -> None:
        """After Ctrl-C ask the driver to end the search; cancel it at the second press, or if it takes long."""
        now = time.monotonic()
        while self.interrupts.notified < self.interrupts.count:
            self.interrupts.notified += 1
            if self.interrupts.notified == 1:
                self._stop_asked_s = now
                with contextlib.suppress(StoreError):
                    self.store.write(STOP, attempt.encode())
            else:
                self._stop_asked_s = -math.inf
        if self._stop_asked_s is not None and now - self._stop_asked_s > _STOPPED_WITHIN_S:
            cancel()

    def close(self) -> None:
        """End the tasks of workers that are left, and the display."""
        self.workers.stop()
        self.news.close()
        self.display.close()


def goes_on(board: Board | None) -> bool:
    """Return whether a driver has not said that it has ended."""
    return board is not None and not board.is_over


def follow_other(study: RunnableStudy, launcher: Launcher, parallelism: int | None, display: Display) -> None:
    """Follow a driver that another client has left in the cluster, if there is one, to its end.

    Raises:
        StudyExistsError: the study is not to be resumed.
        KeyboardInterrupt: it was interrupted, and that driver with it; all results are kept.
    """
    store = study.store
    if not launcher.drives_remotely or not goes_on(read_board(store)) or not store.is_locked():
        return
    count = parallelism or max(1, (launcher.workers_now() or 2) - 1)
    workers = KeptWorkers(launcher.remote_tasks(), store, count, launcher.thread)
    follower = Follower(study, store, display, workers)
    try:
        with interrupts_to(follower.interrupts.add):
            follower.follow_other()
    finally:
        follower.close()
    if follower.interrupts.count:
        raise interruption()
