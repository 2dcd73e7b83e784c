"""Trials one after the other in the caller's main thread, for debugging: breakpoints, ``pdb`` and prints just work.

There is no process, no gRPC and no Java. The launcher is its own transport: the driver's messages go into a queue,
which ``train_here`` empties.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.driver.threads import next_of
from asyncsearch.errors import InternalError, UsageError
from asyncsearch.ids import WorkerId
from asyncsearch.launch.base_launcher import TOO_LATE, ConfigFor, Launcher, OnWorkerEnded, Post, Preflight
from asyncsearch.launch.inline_runner import ShownFailures
from asyncsearch.launch.inline_worker import InlineWorker
from asyncsearch.launch.machine import cores
from asyncsearch.rpc.messages import DriverMessage

_Item = WorkerConfig | tuple[tuple[WorkerId, int], Callable[[InlineWorker], None]] | None
"""A launch, or a call for the worker of a launch. None wakes the reader."""


class InlineLauncher(Launcher):
    """Trains in the thread that calls ``train_here``. It is also the driver's ``Transport``.

    Pseudocode of its use::

        driver = Driver(..., launch=launcher.launch, kill=launcher.kill, changed=launcher.wake)
        driver.connect(launcher)
        launcher.start(config_for, driver.lost)                # with no endpoint
        launcher.train_here(post, until=driver.ended.is_set)  # again after a KeyboardInterrupt and a StopRequested
        launcher.stop(0.0)
    """

    name = "inline"

    def __init__(self) -> None:
        self.transport = self
        self._inbox: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._later: deque[_Item] = deque()
        self._worker: InlineWorker | None = None
        self._shown_failures = ShownFailures()
        self._tick: Callable[[], None] = lambda: None
        self._config_for: ConfigFor | None = None
        self._ended: OnWorkerEnded | None = None
        self._is_stopped = False

    def workers_now(self) -> int:
        return 1

    def check(self, parallelism: int | None) -> Preflight:
        warning = f"Inline, one trial runs after the other: parallelism={parallelism} is ignored."
        return Preflight(
            parallelism=1,
            cpu_threads=cores(),
            warnings=(warning,) if parallelism not in (None, 1) else (),
            place="in this process",
        )

    def devices(self, per_worker: float) -> tuple[str, ...] | None:
        raise UsageError(
            "backend='inline' trains in this process, which sees what it has seen so far: leave out "
            "devices_per_trial=, or write backend='processes'."
        )

    def start(self, config_for: ConfigFor, ended: OnWorkerEnded) -> None:
        self._config_for, self._ended = config_for, ended
        self._inbox, self._later = queue.SimpleQueue(), deque()  # drops messages from after a previous run
        self._shown_failures = ShownFailures()
        self._is_stopped = False

    def launch(self, worker: WorkerId, epoch: int) -> None:
        if self._config_for is None or self._ended is None:
            raise InternalError("launch() comes after start()")
        if self._is_stopped:
            self._ended(worker, epoch, TOO_LATE)
            return
        self._inbox.put(self._config_for(worker, epoch))

    def kill(self, worker: WorkerId, epoch: int) -> None:
        self.disconnect(worker, epoch, "it was ended by the driver")

    def stop(self, grace_s: float) -> None:
        self._is_stopped = True
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    def has_shown(self, failure: str) -> bool:
        return self._shown_failures.has(failure)

    # The driver's interface to a transport.

    def send(self, worker: WorkerId, epoch: int, message: DriverMessage) -> None:
        """Deliver a message to the main thread."""
        self._inbox.put(((worker, epoch), lambda inline: inline.take(message)))

    def acknowledge(self, worker: WorkerId, epoch: int, number: int) -> None:
        """Let the worker, which waits when too many of its messages are not durable, count them."""
        inline = self._worker
        if inline is not None and inline.key == (worker, epoch):
            inline.stream.acknowledged = number

    def disconnect(self, worker: WorkerId, epoch: int, reason: str) -> None:
        """Accept no more messages from this launch of the worker."""
        self._inbox.put(((worker, epoch), lambda inline: inline.drop(reason)))

    # The main thread.

    def wake(self) -> None:
        self._inbox.put(None)

    def train_here(self, post: Post, until: Callable[[], bool], tick: Callable[[], None]) -> None:
        self._tick = tick
        while not until():
            self._turn(post)
            tick()

    def _turn(self, post: Post) -> None:
        """Do one step: train if work is waiting, else wait for a message."""
        if self._worker is not None and self._worker.end is not None:
            self._finish(self._worker.end)
        elif self._worker is None or not self._worker.train_next():
            self._handle(self._later.popleft() if self._later else next_of(self._inbox), post)

    def _look_up(self) -> None:
        """Pass on the messages that arrived for the worker during a training."""
        self._tick()
        while not self._inbox.empty():
            item = self._inbox.get()
            if item is not None and not self._pass_on(item):
                self._later.append(item)

    def _handle(self, item: _Item, post: Post) -> None:
        if isinstance(item, WorkerConfig):
            self._worker = InlineWorker(item, post, self._look_up, self._shown_failures)
            self._worker.open()
        elif item is not None:
            self._pass_on(item)

    def _pass_on(self, item: _Item) -> bool:
        """Run a call for the current worker; return False for any other item."""
        if not isinstance(item, tuple) or self._worker is None or item[0] != self._worker.key:
            return False
        item[1](self._worker)
        return True

    def _finish(self, reason: str) -> None:
        assert self._worker is not None
        assert self._ended is not None
        worker, self._worker = self._worker, None
        worker.close()
        self._ended(*worker.key, reason)
