"""Trials one after the other in the caller's main thread, for debugging: breakpoints, ``pdb`` and prints just work.

There is no process, no gRPC and no Java. The launcher is its own transport: what the driver sends goes into a queue,
which ``run_in_main`` empties.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable

import msgspec

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.errors import InternalError
from asyncsearch.ids import WorkerId
from asyncsearch.launch.base_launcher import TOO_LATE, ConfigFor, Launcher, OnWorkerEnded, Preflight
from asyncsearch.launch.cores import cores
from asyncsearch.launch.inline_worker import InlineWorker, Post
from asyncsearch.rpc.messages import DriverMessage


class _Launched(msgspec.Struct, frozen=True):
    config: WorkerConfig


class _Sent(msgspec.Struct, frozen=True):
    worker: WorkerId
    epoch: int
    message: DriverMessage


class _Gone(msgspec.Struct, frozen=True):
    worker: WorkerId
    epoch: int
    reason: str


_Item = _Launched | _Sent | _Gone | None
"""What the main thread is told; None: look up."""


class InlineLauncher(Launcher):
    """Trains in the thread that calls ``run_in_main``. It is also the driver's ``Transport``.

    Pseudocode of its use::

        driver = Driver(..., launch=launcher.launch, kill=launcher.kill, changed=launcher.wake)
        driver.connect(launcher)
        launcher.start(config_for, driver.lost)                # with no endpoint
        launcher.run_in_main(post, until=driver.ended.is_set)  # again after a KeyboardInterrupt and a StopRequested
        launcher.stop(0.0)
    """

    name = "inline"

    def __init__(self) -> None:
        self._inbox: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._later: deque[_Item] = deque()
        self._worker: InlineWorker | None = None
        self._config_for: ConfigFor | None = None
        self._ended: OnWorkerEnded | None = None
        self._is_stopped = False

    def check(self, parallelism: int | None) -> Preflight:
        warning = f"Inline, one trial runs after the other: parallelism={parallelism} is not heeded."
        return Preflight(
            parallelism=1, cpu_threads=cores(), warnings=(warning,) if parallelism not in (None, 1) else ()
        )

    def start(self, config_for: ConfigFor, ended: OnWorkerEnded) -> None:
        self._config_for, self._ended = config_for, ended
        self._inbox, self._later = queue.SimpleQueue(), deque()  # what came after the end of a run before is for nobody
        self._is_stopped = False

    def launch(self, worker: WorkerId, epoch: int) -> None:
        if self._config_for is None or self._ended is None:
            raise InternalError("launch() comes after start()")
        if self._is_stopped:
            self._ended(worker, epoch, TOO_LATE)
            return
        self._inbox.put(_Launched(self._config_for(worker, epoch)))

    def kill(self, worker: WorkerId, epoch: int) -> None:
        self._inbox.put(_Gone(worker, epoch, "it was ended by the driver"))

    def stop(self, grace_s: float) -> None:
        self._is_stopped = True
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    # What the driver asks of a transport.

    def send(self, worker: WorkerId, epoch: int, message: DriverMessage) -> None:
        """Deliver a message to the main thread."""
        self._inbox.put(_Sent(worker, epoch, message))

    def acknowledge(self, worker: WorkerId, epoch: int, number: int) -> None:
        """Nothing can be lost between two threads, so nobody waits for this."""

    def disconnect(self, worker: WorkerId, epoch: int, reason: str) -> None:
        """Take nothing from this launch of the worker any more."""
        self._inbox.put(_Gone(worker, epoch, reason))

    # The main thread.

    def wake(self) -> None:
        """Make ``run_in_main`` look at ``until`` again; any thread may call it."""
        self._inbox.put(None)

    def run_in_main(self, post: Post, until: Callable[[], bool], tick: Callable[[], None] = lambda: None) -> None:
        """Train what the driver assigns, in the calling thread.

        Args:
            post: passes a message on to the driver, as (worker, epoch, number, message). A ``Hello`` is for
                ``attached``, all others are for ``received``. Also called from another thread, for heartbeats.
            until: whether the run is over.
            tick: called between trials and after each report, to show how things stand.

        Raises:
            KeyboardInterrupt: the user interrupted a trial, or left the debugger. The trial is over; called again, this
                tells the driver so and goes on.
        """
        while not until():
            self._turn(post, tick)
            tick()

    def _turn(self, post: Post, tick: Callable[[], None]) -> None:
        """Do the next thing: train if there is something to train, else wait for a message."""
        if self._worker is not None and self._worker.train_next(lambda: self._look_up(tick)):
            return
        self._handle(self._later.popleft() if self._later else self._inbox.get(), post)
        if self._worker is not None and self._worker.end is not None:
            self._finish(self._worker.end)

    def _look_up(self, tick: Callable[[], None]) -> None:
        """In the middle of a training: see what came meanwhile."""
        tick()
        while not self._inbox.empty():
            item = self._inbox.get()
            if self._is_for_worker(item):
                self._handle(item, None)
            elif item is not None:
                self._later.append(item)

    def _handle(self, item: _Item, post: Post | None) -> None:
        match item:
            case _Launched(config=config):
                assert post is not None
                self._worker = InlineWorker(config, post)
                self._worker.open()
            case _Sent(message=message) if self._is_for_worker(item):
                assert self._worker is not None
                self._worker.take(message)
            case _Gone(reason=reason) if self._is_for_worker(item):
                assert self._worker is not None
                self._worker.drop(reason)
            case _:
                pass  # it is for a launch that is over

    def _is_for_worker(self, item: _Item) -> bool:
        if not isinstance(item, _Sent | _Gone) or self._worker is None:
            return False
        return (item.worker, item.epoch) == self._worker.key

    def _finish(self, reason: str) -> None:
        assert self._worker is not None
        assert self._ended is not None
        worker, self._worker = self._worker, None
        worker.close()
        self._ended(*worker.key, reason)
