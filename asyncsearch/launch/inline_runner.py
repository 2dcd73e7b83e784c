"""A runner in the calling thread, and its channel to the workbench of the same thread."""

from __future__ import annotations

import bdb
import copy
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import msgspec

from asyncsearch.actions import StopTraining
from asyncsearch.agent.config import WorkerConfig
from asyncsearch.agent.lane_run import LaneRun
from asyncsearch.events import Outcome
from asyncsearch.old_pickles import loads
from asyncsearch.runner.failures import exception_text, kind_of
from asyncsearch.runner.lane_runner import LaneRunner
from asyncsearch.runner.process.process_state import SignalState, rank_connections
from asyncsearch.runner.process.signals import SigtermGuard
from asyncsearch.runner.process.spawned_children import sending_copies
from asyncsearch.runner.protocol import Ended, FromRunner, Join, PackFindings, ToRunner, Train, TrainPack
from asyncsearch.trainable import TrainFunction, TrialContext, TrialStopped, as_function


class UserInterrupts(SigtermGuard):
    """Leaves signals to the user of this process, and tells of the user's interrupt: Ctrl-C, or a debugger's end."""

    def __init__(self, interrupted: Callable[[BaseException], None]) -> None:
        super().__init__()
        self._interrupted = interrupted

    def arm(self) -> None:
        """Set no handler."""

    def raise_if_received(self) -> None:
        """Do nothing: no shield has deferred anything."""

    @property
    def is_received(self) -> bool:
        """Whether the exception that is being handled is the user's interrupt."""
        error = sys.exception()
        if not isinstance(error, KeyboardInterrupt | bdb.BdbQuit):
            return False
        self._interrupted(error)
        return True

    @is_received.setter
    def is_received(self, value: bool) -> None:
        """Keep nothing: it is asked for each exception."""


class InlineChannel:
    """Passes on the messages of the runner at once, and keeps those for it until it looks."""

    def __init__(
        self, received: Callable[[FromRunner], None], look: Callable[[], None], wait: Callable[..., None]
    ) -> None:
        """Begin.

        Args:
            received: called with each message of the runner.
            look: passes on the messages of the driver.
            wait: does so, and all that is due, and takes some time.
        """
        self.send, self._look, self.wait = received, look, wait
        self._inbox: deque[ToRunner] = deque()
        self._thread = threading.get_ident()

    def tell(self, message: ToRunner) -> None:
        """Keep a message for the runner."""
        self._inbox.append(message)

    def receive_now(self) -> list[ToRunner]:
        if threading.get_ident() == self._thread:  # what is shown meanwhile is that thread's alone
            self._look()
        messages = list(self._inbox)
        self._inbox.clear()
        return messages

    def next(self) -> ToRunner | None:
        """Return the oldest message. None if there is none."""
        return self._inbox.popleft() if self._inbox else None

    def clear(self) -> None:
        """Drop all messages: the runner has dropped its training."""
        self._inbox.clear()


class InlineRunner(LaneRunner):
    """The runner, and the workbench's ``RunnerHandle`` of it."""

    can_take_more = True
    may_copy = False  # whoever calls has the process for itself once the search is over
    loads_beside = False  # one thread does both

    def __init__(
        self,
        config: WorkerConfig,
        channel: InlineChannel,
        shown_failures: ShownFailures,
        interrupted: Callable[[BaseException], None],
    ) -> None:
        """Load the trainable; ``interrupted`` is called with the user's interrupt."""
        interrupts = UserInterrupts(interrupted)
        super().__init__(channel, interrupts, _load(config.bundle), config.metric, config.untrusted, config.seal_key)
        self._inline, self._shown_failures, self._interrupted = channel, shown_failures, interrupted
        self._runs: list[LaneRun] = []
        """The lanes that it trains, or is to train."""

    def handle(self, message: ToRunner) -> None:
        state = SignalState() if threading.current_thread() is threading.main_thread() else None
        try:
            with sending_copies(self._trainable):
                super().handle(message)
        finally:
            rank_connections.close()  # torch allows no second default group, and this process is the user's
            if state is not None:
                state.restore()

    # The workbench's handle

    def begin(self, runs: Sequence[LaneRun], message: Train | TrainPack) -> bool:
        self._runs = list(runs)
        if isinstance(message, Train):
            self.tell(_own(message))
        else:
            self.tell(msgspec.structs.replace(message, lanes=tuple([_own(train) for train in message.lanes])))
        return True

    def join(self, run: LaneRun, message: Join) -> None:
        self._runs.append(run)
        self.tell(Join(_own(message.lane)))

    def tell(self, message: ToRunner) -> None:
        self._inline.tell(message)

    def stop(self, run: LaneRun, reason: str) -> None:
        self.tell(StopTraining(run.lease, reason, run.number))

    def kill(self) -> None:
        """Stop all lanes: the thread is the user's."""
        for run in self._runs:
            self.stop(run, "its lease was refused")

    def lane_ended(self, run: LaneRun) -> None:
        self._runs = [one for one in self._runs if one is not run]

    # The user's code

    def _guarded(self, function: TrainFunction) -> TrainFunction:
        """Turn the user's interrupt into a stop of this training, and show an exception where it was raised."""

        def train(trial: TrialContext) -> Any:
            try:
                return function(trial)
            except (KeyboardInterrupt, bdb.BdbQuit) as interrupt:
                self._interrupted(interrupt)
                raise TrialStopped("it was interrupted") from interrupt
            except Exception as error:
                self._shown_failures.show(trial.name, error)
                raise

        train.__wrapped__ = function  # type: ignore[attr-defined]
        return train

    def _tell(self, message: PackFindings | Ended) -> None:
        """Tell, and show the exception that ended a lane of a pack, which is being handled."""
        error = sys.exception()
        if isinstance(message, Ended) and message.outcome is Outcome.FAILED and isinstance(error, Exception):
            self._shown_failures.show(self._trial(message.lane), error)
        super()._tell(message)

    def _trial(self, lane: int) -> str:
        (trial,) = [run.trial for run in self._runs if run.number == lane]
        return trial


def _own(train: Train) -> Train:
    # A copy, as a message would bring: the function may change its parameters, and the engine has recorded them.
    stages = tuple([msgspec.structs.replace(stage, params=copy.deepcopy(stage.params)) for stage in train.stages])
    return msgspec.structs.replace(train, stages=stages)


def _load(bundle: bytes) -> TrainFunction | Ended:
    try:
        return as_function(loads(bundle))
    except Exception as error:
        text = f"{exception_text(error)}\nThe trainable could not be loaded: {error}"
        return Ended(Outcome.FAILED, 0, text, kind_of(error))


class ShownFailures:
    """The failures of one run that were printed in full."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], str] = {}
        """Exception and line of code -> the first trial that failed there."""

    def show(self, trial: str, error: Exception) -> None:
        """Print the traceback from the user's first frame on, or in one line, and keep it for ``pdb.pm()``."""
        frames = None if error.__traceback__ is None else error.__traceback__.tb_next
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, frames
        key = (type(error).__name__, _line_of(frames))
        words = traceback.format_exception_only(error)[-1].strip()
        if key in self._first:
            sys.stderr.write(f"{trial} failed at the same line as {self._first[key]}: {words}\n")
            return
        self._first[key] = trial
        text = "".join(traceback.format_exception(type(error), error, frames))
        sys.stderr.write(f"{trial} failed; look around by: import pdb; pdb.pm()\n{text}")

    def has(self, text: str) -> bool:
        """Return whether the failure that a text with a traceback describes was printed in full."""
        return any(name in text and line and line in text for name, line in self._first)


def _line_of(frames: TracebackType | None) -> str:
    found = traceback.extract_tb(frames)
    return f'File "{found[-1].filename}", line {found[-1].lineno}' if found else ""
