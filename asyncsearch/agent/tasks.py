"""Where the transfers of a worker run: in a thread of their own, or in the thread that calls."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable

from asyncsearch.agent.lane_run import LaneRun


class TaskQueue:
    """Runs tasks in order, in the thread that calls ``run``.

    Args:
        wait: waits so many seconds between two tries of a task, or less if the run gives up.
    """

    def __init__(self, wait: Callable[[LaneRun, float], None]) -> None:
        self.wait = wait
        self._tasks: deque[Callable[[], None]] = deque()
        self._is_running = False

    def submit(self, task: Callable[[], None]) -> None:
        """Run a task later."""
        self._tasks.append(task)

    def run(self) -> bool:
        """Run the tasks that were submitted, and return whether there were any."""
        if self._is_running:  # a task waits for the store, and those that have come meanwhile follow it
            return False
        has_run, self._is_running = bool(self._tasks), True
        try:
            while self._tasks:
                self._tasks.popleft()()
        finally:
            self._is_running = False
        return has_run

    def close(self) -> None:
        """Do nothing: those that were submitted are run."""


class TaskThread:
    """One thread that runs tasks in order. It is a daemon: a store that hangs must not keep the process alive."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, task: Callable[[], None]) -> None:
        """Run a task later. The first call starts the thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._tasks.put(task)

    def wait(self, run: LaneRun, delay_s: float) -> None:
        """Wait so long, or less if the run gives up."""
        run.gives_up.wait(delay_s)

    def close(self) -> None:
        """End the thread after the submitted tasks."""
        self._tasks.put(None)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
