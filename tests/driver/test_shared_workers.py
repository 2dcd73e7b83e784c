"""Drivers that share workers: the broker gets what they have and need, and each driver gets its shares."""

from __future__ import annotations

import queue
from typing import Any

from asyncsearch.actions import DismissWorker
from asyncsearch.driver.dispatcher import Dispatcher
from asyncsearch.driver.shared_workers import SharedWorkers, WorkerShare
from asyncsearch.engine.handling import handle
from asyncsearch.events import DriverStarted, RunRequested, ShareChanged
from asyncsearch.fair.demands import GangSizes, StudyJoined
from asyncsearch.ids import WorkerId
from asyncsearch.schedulers import FIFO
from tests.engine.tools import make_state

W0 = WorkerId(0)
PATIENCE_S = 60.0


class Side:
    """A study and its driver, which takes events one by one."""

    def __init__(self, workers: SharedWorkers, name: str, trials: int = 9) -> None:
        self.share = WorkerShare(workers, StudyJoined(name))
        self.state = make_state(FIFO(max_resource=3))
        self.posted: queue.Queue[Any] = queue.Queue()
        self.share.join(self.posted.put)
        self.tell(DriverStarted("test"))
        self.tell(RunRequested(trials, workers.workers, share=0))

    def tell(self, event: Any, *, is_over: bool = False) -> None:
        handle(self.state, event, 0.0)
        self.share.observe(self.state, is_over=is_over)

    def take(self) -> int:
        """Take the next share and return it."""
        event = self.posted.get(timeout=PATIENCE_S)
        assert isinstance(event, ShareChanged)
        self.tell(event)
        return event.workers


def test_a_lone_study_has_all_and_gives_half_once_its_workers_end() -> None:
    workers = SharedWorkers(4)
    first = Side(workers, "first")
    assert first.take() == 4
    for number in range(4):
        first.share.launching(WorkerId(number), 1)
    second = Side(workers, "second")
    assert first.take() == 2
    assert second.posted.empty(), "the processes have not ended yet"
    assert first.share.held == 4
    for number in range(2):
        first.share.ended(WorkerId(number), 1)
    first.share.observe(first.state, is_over=False)
    assert second.take() == 2
    workers.close()


def test_a_study_of_gangs_has_at_most_the_workers_that_they_can_use() -> None:
    workers = SharedWorkers(5)
    assert WorkerShare(workers, StudyJoined("a", sizes=GangSizes(2))).most == 4
    assert WorkerShare(workers, StudyJoined("a", max_workers=3, sizes=GangSizes(2))).most == 2
    workers.close()


def test_a_study_that_leaves_gives_all_to_the_others() -> None:
    workers = SharedWorkers(3)
    first, second = Side(workers, "first"), Side(workers, "second")
    while first.share.workers + second.share.workers < 3 or not (first.posted.empty() and second.posted.empty()):
        for side in (first, second):
            if not side.posted.empty():
                side.take()
    first.share.leave()
    assert second.take() == 3
    workers.close()


def test_a_need_that_fell_counts_as_it_was_until_the_clock_says_so() -> None:
    workers = SharedWorkers(2)
    first = Side(workers, "first", trials=9)
    assert first.take() == 2
    first.share.observe(first.state, is_over=True)
    second = Side(workers, "second")
    assert second.share.workers == 0
    assert first.posted.get(timeout=PATIENCE_S).workers == 1, "the newcomer's part at once"
    first.share.observe(first.state, is_over=True)
    assert first.posted.get(timeout=PATIENCE_S).workers == 0, "the rest once the need has settled"
    workers.close()


def test_a_dismissed_worker_that_does_not_end_is_killed() -> None:
    killed: queue.Queue[tuple[WorkerId, int]] = queue.Queue()
    later: list[Any] = []
    sent: list[Any] = []

    class Timeouts:
        def forget(self, worker: Any) -> None:
            pass

    class Wire:
        def send(self, worker: WorkerId, epoch: int, message: Any) -> None:
            sent.append(message)

    options: dict[str, Any] = dict.fromkeys(["launch", "post", "lost", "end"])
    dispatcher = Dispatcher(
        Timeouts(),  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        kill=lambda *worker: killed.put(worker),
        call_later=lambda seconds, function: later.append(function),
        launches_at_once=None,
        **options,
    )
    dispatcher.connect(Wire())  # type: ignore[arg-type]
    dispatcher.attached((W0, 1))
    dispatcher.carry_out(DismissWorker(W0, 1, "another study has the worker"))
    assert len(sent) == 1
    later[0]()
    assert killed.get(timeout=PATIENCE_S) == (W0, 1)
    dispatcher.close()
    later[0]()
