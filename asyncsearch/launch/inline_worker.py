"""A worker without processes: the agent's workbench, and a runner in the same thread."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable

from asyncsearch.actions import DismissWorker
from asyncsearch.agent.config import WorkerConfig
from asyncsearch.agent.lane_run import LaneRun
from asyncsearch.agent.outputs import MAX_BACKLOG
from asyncsearch.agent.transfers import TaskQueue, Transferred
from asyncsearch.agent.workbench import Workbench
from asyncsearch.ids import WorkerId
from asyncsearch.launch.base_launcher import Post
from asyncsearch.launch.inline_runner import InlineChannel, InlineRunner, ShownFailures
from asyncsearch.rpc.messages import DriverMessage, Heartbeat, Hello, WorkerMessage
from asyncsearch.runner.process.kernel_files import device_name
from asyncsearch.runner.protocol import FromRunner, LaneReported

_LOOK_S = 0.1
_VERDICT_S = 0.001
"""Time between two looks for a verdict, which takes the driver some of it."""
"""Time between two looks for messages while the store is waited for."""


class _Stream:
    """The messages to the driver, which is in this process."""

    def __init__(self, key: tuple[WorkerId, int], post: Post) -> None:
        self._key, self._post = key, post
        self._number = 0
        self.acknowledged = 0
        """Number of the last message that is durable; the driver's thread sets it."""
        self._held: list[WorkerMessage] = []
        self.is_holding = False
        """Whether messages are kept until the driver has learned of an interrupt."""

    @property
    def backlog(self) -> int:
        return self._number - self.acknowledged

    def send(self, message: WorkerMessage) -> None:
        if self.is_holding:
            self._held.append(message)
            return
        self._number += 1
        self._post(*self._key, self._number, message)

    def hold(self) -> None:
        """Keep messages until ``release``."""
        self.is_holding = True

    def release(self) -> bool:
        """Send the messages that were kept, and return whether there were any."""
        held, self._held, self.is_holding = self._held, [], False
        for message in held:
            self.send(message)
        return bool(held)


class InlineWorker:
    """One launch of a worker. All methods are called in the main thread; heartbeats have their own thread."""

    def __init__(
        self,
        config: WorkerConfig,
        post: Post,
        look_up: Callable[[], None],
        shown_failures: ShownFailures | None = None,
    ) -> None:
        """Load the trainable.

        Args:
            config: of the worker.
            post: to the driver.
            look_up: passes on messages that arrived meanwhile; called after each report, and in waits.
            shown_failures: prints exceptions of the user's code.
        """
        self.key = (config.worker, config.epoch)
        self.end: str | None = None
        """Reason for its end. None while it is running."""
        self._config, self._post, self._look_up = config, post, look_up
        self.stream = _Stream(self.key, post)
        self._tasks = TaskQueue(self._wait)
        self._channel = InlineChannel(self._receive, look_up, self._wait_in_training)
        self._runner = InlineRunner(config, self._channel, shown_failures or ShownFailures(), self._interrupted)
        self._bench = Workbench(config, self._runner, self.stream.send, self._on_transfer, self._tasks)
        self._interrupt: BaseException | None = None
        self._dismissal: str | None = None
        self._closed = threading.Event()

    def open(self) -> None:
        device = device_name(os.environ.get("CUDA_VISIBLE_DEVICES"))
        hello = Hello(*self.key, uuid.uuid4().hex, socket.gethostname(), os.getpid(), device=device)
        self._post(*self.key, 0, hello)
        threading.Thread(target=self._beat, name="asyncsearch-heartbeat", daemon=True).start()

    def close(self) -> None:
        """Stop the heartbeats, and drop all checkpoints."""
        self._closed.set()
        self._bench.refuse(None)
        self._tasks.run()
        self._bench.close()

    def take(self, message: DriverMessage) -> None:
        """Carry out an action of the driver; ``train_next`` trains assigned work later."""
        if isinstance(message, DismissWorker):
            self._dismissal = message.reason
            self._bench.dismiss(message.reason)
        else:
            self._bench.obey(message)
        self._end_if_done()

    def drop(self, reason: str) -> None:
        """End, and send nothing more: the driver considers this launch lost."""
        self.end = reason
        self._bench.refuse(None)

    def train_next(self) -> bool:
        """Run all transfers that wait and train at most one work; return whether there was anything to do.

        Raises:
            KeyboardInterrupt: the user interrupted the training.
        """
        if self.stream.release():  # the driver has learned of the interrupt before it learns of these ends
            self._end_if_done()
            return True
        if self.end is not None:
            return False
        try:
            has_run = self._tasks.run()
            message = self._channel.next()
            if message is not None:
                self._runner.handle(message)
        except BaseException:  # interrupted in our own code
            self.stream.hold()
            self._interrupt = None
            self._abandon()
            raise
        interrupt, self._interrupt = self._interrupt, None
        if interrupt is not None:
            if self._bench.is_interrupted:  # lanes that were to join the training
                self._abandon()
            raise KeyboardInterrupt from interrupt
        self._end_if_done()
        return has_run or message is not None

    def _abandon(self) -> None:
        self._channel.clear()
        self._bench.abandon()
        self._tasks.run()

    def _receive(self, message: FromRunner) -> None:
        """Pass on a message of the runner; wait while too many are not durable, since the journal cannot be written."""
        self._bench.messages.on_message(message)
        self._tasks.run()
        run = self._bench.lanes.sent(message.lane) if isinstance(message, LaneReported) else None
        while run is not None and self.stream.backlog > MAX_BACKLOG and not run.gives_up.is_set():
            self._wait(run, _LOOK_S)

    def _on_transfer(self, done: Transferred) -> None:
        self._bench.lanes.on_transfer(done)

    def _wait(self, run: LaneRun, delay_s: float) -> None:
        """Wait for a store that fails, and pass on the messages of the driver meanwhile."""
        until = time.monotonic() + delay_s
        self._look_up()
        # No event: its own lock may stay held where Ctrl-C interrupts a wait for it.
        while not run.gives_up.is_set() and (rest := until - time.monotonic()) > 0:
            time.sleep(min(rest, _LOOK_S))
            self._look_up()

    def _wait_in_training(self, timeout_s: float | None = None) -> None:
        """Wait a moment, and pass on the messages of the driver meanwhile: for a verdict, or a checkpoint's place.

        Args:
            timeout_s: how long the training waits for its verdict. None if it waits for a place for a checkpoint.
        """
        if timeout_s is not None:
            time.sleep(min(timeout_s, _VERDICT_S))
            self._look_up()
            return
        due = self._bench.checkpoints.due
        time.sleep(_LOOK_S if due is None else max(0.0, min(due - time.monotonic(), _LOOK_S)))
        self._look_up()
        self._bench.checkpoints.tick(time.monotonic())

    def _interrupted(self, interrupt: BaseException) -> None:
        """Turn the user's interrupt into a stop of the lanes that train."""
        self._interrupt = self._interrupt or interrupt
        self.stream.hold()
        self._bench.interrupt("it was interrupted")

    def _end_if_done(self) -> None:
        if self._dismissal is not None and self._bench.is_done and not self.stream.is_holding:
            self.end = self.end or f"dismissed: {self._dismissal}"

    def _beat(self) -> None:
        """Send heartbeats, even while the trial waits at a breakpoint."""
        while not self._closed.wait(self._config.heartbeat_s):
            self._post(*self.key, 0, Heartbeat())
