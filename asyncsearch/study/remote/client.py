"""The client of a driver in the cluster: keeps its task and those of the workers alive, and shows what it says.

    repeat until a driver has ended by itself:
        run a driver as a task; while it runs, keep as many workers' tasks as the search wants; show the board
    a driver that was lost: another one goes on from the journal

Nothing has to flow from the driver to here for a launch: a lost worker is a task that has ended, which is run again,
and meets the driver by the store. So the client may be stopped, or die, and another one goes on.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NoReturn

from asyncsearch import errors
from asyncsearch.driver.interrupts import interruption, interrupts_to
from asyncsearch.errors import AsyncSearchError, ClusterError, StoreError
from asyncsearch.journal.opening import read_study_file
from asyncsearch.launch.base_launcher import SILENT_FOR_S, Launcher, Preflight, RemoteTasks
from asyncsearch.launch.remote.meeting import FOLDER
from asyncsearch.report.formatting import many
from asyncsearch.report.live.display import Display
from asyncsearch.store.base_store import Store
from asyncsearch.study.left_tasks import ended_by_the_next
from asyncsearch.study.remote.board import Ending, read_board
from asyncsearch.study.remote.driver_task import ENDING, NOT_THERE, Order, SentName, driver, send
from asyncsearch.study.remote.following import LOOK_S, Follower, follow_other, goes_on
from asyncsearch.study.remote.kept_tasks import KeptWorkers
from asyncsearch.study.runnable import Remotely, RunnableStudy

_MOST_LOSSES = 4
"""Drivers that may be lost one after the other without any record of the journal."""
_LOCKED_FOR_S = 100.0
"""How long a driver that was lost may hold the study: the lease of its lock is at most 60 s."""
_LOCKED_AGAIN_S = 4.0
"""By then one that goes on, of which the cluster knows nothing any more, has written its board again."""
_SLOT_SHOWN_AFTER_S = 15.0
_CANCELLED_WITHIN_S = 10.0
_DRIVER = "driver"
_FOLLOWED = "The search goes on there until the cluster gives up on this process, which follows it by the store."


class RemoteRun:
    """One run, of one client."""

    def __init__(
        self,
        study: RunnableStudy,
        store: Store,
        sent: SentName,
        tasks: RemoteTasks,
        found: Preflight,
        num_trials: int | None,
        timeout_s: float | None,
        display: Display,
        thread: Callable[[Callable[[], None], str], threading.Thread],
    ) -> None:
        self._study, self._store, self._sent, self._tasks, self._found = study, store, sent, tasks, found
        self._num_trials, self._display, self._thread = num_trials, display, thread
        self._until_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
        self._workers = KeptWorkers(tasks, store, found.parallelism, thread)
        self._follower = Follower(study, store, display, self._workers)
        self._is_waiting_shown = self._is_silence_shown = False
        self._news_s = -math.inf
        """When the cluster answered last, or the driver wrote into the store."""
        self._was_remote = goes_on(read_board(store))
        """Whether a driver in the cluster was left behind by another client."""

    def run(self, noting: Callable[[], AbstractContextManager[None]]) -> None:
        """Run to the end, whoever drives; ``noting`` lasts as long as the drivers of this client."""
        try:
            with interrupts_to(self._follower.interrupts.add), noting():
                self._drive()
        finally:
            self._follower.close()
        if self._follower.interrupts.count:
            raise interruption()
        with contextlib.suppress(StoreError):  # the next run writes over it
            self._store.remove_tree(FOLDER)

    def _drive(self) -> None:
        """Run drivers until one has ended by itself."""
        losses, size, locked_until_s = 0, self._store.journal_size(), math.inf
        is_next = self._study.resume
        while True:
            attempt = secrets.token_hex(8)
            left_s = None if self._until_s == math.inf else max(1.0, self._until_s - time.monotonic())
            logs, is_shown = self._display.shows_lines, self._display.is_shown
            order = Order(attempt, self._num_trials, left_s, self._found, logs, is_shown, is_next)
            ending = self._follow(driver(self._store, self._sent, order), attempt)
            if isinstance(ending, Ending) and ending.kind == "StoreLockedError" and (losses or self._was_remote):
                # By a driver that was lost, and that is being ended or whose lease runs out.
                locked_until_s = min(locked_until_s, time.monotonic() + _LOCKED_FOR_S)
                if time.monotonic() < locked_until_s and not self._follower.interrupts.count:
                    self._follower.wait(_LOCKED_AGAIN_S)
                    if self._follower.follow_other():
                        locked_until_s = math.inf
                    continue
            if self._follower.interrupts.count or isinstance(ending, Ending):
                self._study.resume = self._study.resume or read_study_file(self._store) is not None
                if not self._follower.interrupts.count and isinstance(ending, Ending):
                    self._raise_if_failed(ending)
                return
            self._study.resume = self._study.resume or read_study_file(self._store) is not None
            before, size, is_next, locked_until_s = size, self._store.journal_size(), True, math.inf
            losses = losses + 1 if size == before else 1
            trouble = self._tasks.trouble()
            if trouble or losses >= _MOST_LOSSES:
                raise ClusterError(
                    f"The search's driver, a task of the cluster, was lost{'' if trouble else f' {losses} times'}: "
                    f"{trouble or ending}. All that was acknowledged is kept: run again with resume=True to go on."
                )
            self._display.warn([f"The search's driver was lost ({ending}): another one goes on from the journal."])

    def _follow(self, content: bytes, attempt: str) -> Ending | str:
        """Run a driver, show what it says, and return how it has ended, or why it is lost."""
        ended: list[Ending | str] = []
        self._follower.begin_driver()
        tag = f"{_DRIVER}-{attempt}"

        def run() -> None:
            try:
                ended.append(ENDING.decode(self._tasks.drive(content, tag)))
            except BaseException as error:
                ended.append(self._tasks.why_lost(error))
            self._follower.news.set()

        self._thread(run, f"asyncsearch-{_DRIVER}").start()
        try:
            self._watch(attempt, tag, ended)
        except BaseException:  # of a display: nobody would look at what this driver does, and it has a slot
            self._tasks.cancel(tag)
            until_s = time.monotonic() + _CANCELLED_WITHIN_S
            while not ended and time.monotonic() < until_s:  # this process may end now
                self._follower.wait(LOOK_S)
            raise
        self._workers.pause()
        self._follower.look(attempt)
        return ended[0]

    def _watch(self, attempt: str, tag: str, ended: list[Ending | str]) -> None:
        """Show the words of a driver, and keep its workers alive, until it has ended."""
        began_s = self._news_s = time.monotonic()
        while not ended:
            self._follower.stop_if_asked(attempt, lambda: self._tasks.cancel(tag))
            self._follower.wait(LOOK_S)
            has_news = self._follower.look(attempt)
            if self._follower.interrupts.count and not self._is_up(attempt, tag):
                self._tasks.cancel(tag)  # it waits for a slot, and hears of nothing
            if self._is_up(attempt, tag):
                # Not before: their tasks would wait in the slot that the driver needs.
                self._workers.begin()
            trouble = self._tasks.trouble()
            if not trouble:  # else nobody knows who has a slot
                self._say_who_waits(self._is_up(attempt, tag), time.monotonic() - began_s)
            self._end_if_silent(trouble, attempt, has_news, ended)

    def _end_if_silent(self, trouble: str, attempt: str, has_news: bool, ended: list[Ending | str]) -> None:
        """End a driver of which neither the cluster nor the store tells anything, or of whose end the store alone does.

        The store may be reached where the cluster is not.
        """
        now, last = time.monotonic(), self._follower.reader.last
        if has_news or not trouble:
            self._news_s = now
        if not trouble:
            self._is_silence_shown = False
        elif last is not None and last.attempt == attempt and last.ending is not None:
            ended.append(last.ending)
        elif now - self._news_s > SILENT_FOR_S or self._follower.interrupts.count > 1:  # nobody hears of it
            ended.append(trouble)
        elif has_news and not self._is_silence_shown:
            self._is_silence_shown = True
            self._display.warn([f"{trouble[0].upper()}{trouble[1:]}. {_FOLLOWED}"])

    def _is_up(self, attempt: str, tag: str) -> bool:
        """Return whether a driver has its slot."""
        last = self._follower.reader.last
        return (last is not None and last.attempt == attempt) or self._tasks.is_running(tag)

    def _say_who_waits(self, is_up: bool, since_s: float) -> None:
        """Say once that tasks have no slot, which nobody else can see."""
        if self._is_waiting_shown or since_s < _SLOT_SHOWN_AFTER_S:
            return
        if not is_up:
            words = "The search's driver waits for a free task slot, or for Python to start there."
        elif waiting := self._workers.slotless(_SLOT_SHOWN_AFTER_S):
            words = (
                f"{many(waiting, 'task')} of workers without a slot: other jobs hold the slots, or "
                f"parallelism={self._found.parallelism} is above those that there are beside the driver's."
            )
        else:
            return
        self._is_waiting_shown = True
        self._display.warn([words])

    def _raise_if_failed(self, ending: Ending) -> None:
        if ending.kind == NOT_THERE:
            self._refuse(ending.words)
        if ending.kind:
            raise getattr(errors, ending.kind, AsyncSearchError)(ending.words)

    def _refuse(self, host: str) -> NoReturn:
        raise ClusterError(
            f"The driver of this search runs in the cluster, on {host}, where the store {self._store.shown!r} is not "
            "what it is here. Name one that both reach: Study(..., store='hdfs:///studies/digits'), "
            "'s3://...', or a folder of a disk that all machines mount."
        )


def run_remotely(
    study: RunnableStudy,
    launcher: Launcher,
    found: Preflight,
    num_trials: int | None,
    timeout_s: float | None,
    display: Display,
) -> None:
    """Search by a driver in the cluster, and return once it has ended.

    Args:
        launcher: has found that the driver must be there.
        found: its findings.

    Raises:
        AsyncSearchError: the search could not start, or failed; every acknowledged report is in the store.
        KeyboardInterrupt: it was interrupted; all results are kept.
    """
    store = study.take_store(display)
    store.prepare()
    workers = many(found.parallelism, "worker") + (f" ({found.place})" if found.place else "")
    display.begin(f"{study.definition.config.study}: searching on {workers}, with everything stored in {store.shown}")
    display.warn(found.warnings)
    sent = send(study, store)
    store.wait_no_longer()  # from now on the driver decides what waits for it
    tasks = launcher.remote_tasks()
    run = RemoteRun(study, store, sent, tasks, found, num_trials, timeout_s, display, launcher.thread)
    run.run(lambda: ended_by_the_next(launcher, store))


REMOTELY = Remotely(follow_other, run_remotely)
"""Lets the driver of a study's run be in the cluster."""
