"""One training in a thread of this process, and its channel to the agent's thread.

Everything that it says, prints among it, goes into one mailbox in its order: so its last line comes before its end.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.launch.threads.guard import ThreadGuard
from asyncsearch.launch.threads.jobs import Cancelling
from asyncsearch.launch.threads.printed import captured
from asyncsearch.launch.trial_jobs import JobNames, TrialJobs
from asyncsearch.runner import once_cache
from asyncsearch.runner.lane_runner import LaneRunner
from asyncsearch.runner.protocol import Ended, FromRunner, ToRunner, Train
from asyncsearch.trainable import TrainFunction, TrialContext, TrialStopped


class Printed(msgspec.Struct, frozen=True):
    """Text that a training has printed."""

    is_stderr: bool
    text: str
    time_s: float
    """Seconds since 1970."""


class Over(msgspec.Struct, frozen=True):
    """The thread has ended, and says nothing more."""


_MOST_TEXTS, _MOST_CHARS = 4_096, 1 << 20
FromThread = FromRunner | Printed | Over
Say = Callable[["TrialThread", FromThread], None]


class Unread:
    """How much of what a thread has printed nobody has read yet: at a bound the thread waits, as at a full pipe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._texts = self._chars = 0
        self._is_closed = False

    def add(self, text: str) -> bool:
        """Wait until there is room for a text, and count it. False: nobody reads any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or (self._texts < _MOST_TEXTS and self._chars < _MOST_CHARS))
            if not self._is_closed:
                self._texts, self._chars = self._texts + 1, self._chars + len(text)
            return not self._is_closed

    def read(self, text: str) -> None:
        """Count a text as read."""
        with self._changed:
            self._texts, self._chars = self._texts - 1, self._chars - len(text)
            self._changed.notify_all()

    def close(self) -> None:
        """Let nobody wait: what is printed from now on is lost."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


class ThreadChannel:
    """Carries messages between the training's thread and the agent's."""

    def __init__(self, say: Callable[[FromThread], None]) -> None:
        self._say = say
        self._changed = threading.Condition()
        self._inbox: deque[ToRunner] = deque()
        self._may_send = threading.Event()
        self._may_send.set()
        self._is_closed = False

    def send(self, message: FromRunner) -> None:
        self._may_send.wait()
        if self._is_closed:
            raise TrialStopped("nobody listens to this training any more")
        self._say(message)

    def receive_now(self) -> list[ToRunner]:
        with self._changed:
            messages = list(self._inbox)
            self._inbox.clear()
        return messages

    def wait(self, timeout_s: float | None = None) -> None:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._inbox) or self._is_closed, timeout_s)

    # The agent's side

    def tell(self, message: ToRunner) -> None:
        """Keep a message for the training."""
        with self._changed:
            self._inbox.append(message)
            self._changed.notify_all()

    def hold(self, *, is_held: bool) -> None:
        """Let the training wait at its next message, or no longer: the driver has not taken those before."""
        if is_held and not self._is_closed:
            self._may_send.clear()
        else:
            self._may_send.set()

    def close(self) -> None:
        """Take nothing more from the training, which ends at its next message."""
        with self._changed:
            self._is_closed = True
            self._may_send.set()
            self._changed.notify_all()


class TrialThread(LaneRunner):
    """The thread of one training. All methods but ``handle`` are called by the agent's thread."""

    def __init__(
        self, config: WorkerConfig, trainable: TrainFunction | Ended, jobs: TrialJobs, names: JobNames, say: Say
    ) -> None:
        """Prepare.

        Args:
            config: of the worker.
            trainable: the user's code, or how every training ends, since it cannot be had.
            jobs: of the cluster that the user's code may start jobs on.
            names: of the jobs of this training.
            say: takes what it says; called from its thread.
        """
        self._say, self._jobs, self._names = say, jobs, names
        self.channel = ThreadChannel(lambda item: say(self, item))
        self.unread = Unread()
        self._guard = ThreadGuard()
        super().__init__(self.channel, self._guard, trainable, config.metric, config.untrusted, config.seal_key)
        self._cancelling = Cancelling(jobs, names)
        self._over = threading.Event()
        self._ident = 0

    def start(self, train: Train) -> None:
        """Begin the training."""
        self._jobs.thread(lambda: self._run_to_end(train), f"asyncsearch-{self._names.description}").start()

    def cancel_jobs(self) -> None:
        """Cancel the jobs that it has started, and those that it still starts."""
        self._cancelling.begin()

    def interrupt(self) -> None:
        """Raise ``TrialStopped`` in it, where that can be."""
        self._guard.interrupt()

    def leave(self, timeout_s: float) -> str:
        """End it, and return where it stands if it does not end in time; else nothing."""
        self.channel.close()
        self.unread.close()
        if not self._over.is_set():
            self.cancel_jobs()
            self.interrupt()
        is_over = self._over.wait(timeout_s)
        self._cancelling.end()
        self._cancelling.wait(timeout_s)
        if is_over:
            return ""
        once_cache.leave(self._ident)  # else each later trial would wait for what this one computes
        return self.position()

    def position(self) -> str:
        """Return the line of code at which it stands, for people."""
        frames = traceback.extract_stack(sys._current_frames().get(self._ident))
        return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else "an unknown line"

    def is_inside(self, package: str) -> bool:
        """Return whether it is in code of a package now, or in what that has called; any thread may call this."""
        frames = traceback.walk_stack(sys._current_frames().get(self._ident))
        return any(f"{frame.f_globals.get('__name__')}.".startswith(f"{package}.") for frame, _ in frames)

    def ended(self) -> None:
        """Take note that it has told its end, so that its jobs are cancelled for the last time."""
        self._cancelling.end()

    def _guarded(self, function: TrainFunction) -> TrainFunction:
        """Name the jobs of the user's function; a cluster that is gone is the training's own failure."""

        def train(trial: TrialContext) -> Any:
            self._jobs.enter(self._names)
            return function(trial)

        train.__wrapped__ = function  # type: ignore[attr-defined]
        return train

    def _run_to_end(self, train: Train) -> None:
        self._ident = threading.get_ident()
        try:
            with captured(self._print):
                self.handle(train)
        except BaseException as error:
            self._say(self, Printed(True, f"asyncsearch: its thread has failed: {error!r}\n", time.time()))
        finally:
            self._over.set()
            self._say(self, Over())

    def _print(self, is_stderr: bool, text: str) -> None:
        with self._guard.shield():  # the mailbox has a lock
            if self.unread.add(text):
                self._say(self, Printed(is_stderr, text, time.time()))
