"""A worker without processes: what agent and runner do together, in one thread."""

from __future__ import annotations

import bdb
import contextlib
import os
import pickle
import socket
import sys
import threading
import traceback
import uuid
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asyncsearch.actions import Assign, CutWork, DismissWorker, SaveAt, StopTraining
from asyncsearch.agent.config import WorkerConfig
from asyncsearch.events import CheckpointCommitted, CheckpointFailed, Outcome, Reported, TrainingEnded
from asyncsearch.ids import CheckpointRef, Lease, WorkerId
from asyncsearch.nonfinite import spell_all
from asyncsearch.rpc.messages import DriverMessage, Heartbeat, Hello, Refused, WorkerMessage
from asyncsearch.runner.failures import exception_text, kind_of
from asyncsearch.runner.protocol import Cut, Ended, SavePoint, Train
from asyncsearch.runner.sigterm import SigtermGuard
from asyncsearch.runner.training import run_training
from asyncsearch.trainable import TrainFunction, TrialContext, TrialStopped, as_function
from asyncsearch.work import Lane

Post = Callable[[WorkerId, int, int, WorkerMessage], None]
"""Passes (worker, epoch, number, message) on to the driver."""


class InlineWorker:
    """One launch of a worker. All methods are called in the main thread; heartbeats come from one of their own."""

    def __init__(self, config: WorkerConfig, post: Post) -> None:
        self.key = (config.worker, config.epoch)
        self.end: str | None = None
        """Why it is over; None: it is not."""
        self._config = config
        self._post = post
        self._number = 0
        self._waiting: deque[_Attempt] = deque()
        self._current: _Attempt | None = None
        self._unsaid: list[WorkerMessage] = []
        """The end of a training that was interrupted; said after the driver has heard of the interrupt."""
        self._interrupt: BaseException | None = None
        self._dismissal: str | None = None
        self._closed = threading.Event()
        self._trainable: TrainFunction | Ended = _load(config.bundle)

    def open(self) -> None:
        """Attach."""
        hello = Hello(*self.key, uuid.uuid4().hex, socket.gethostname(), os.getpid())
        self._post(*self.key, 0, hello)
        threading.Thread(target=self._beat, name="asyncsearch-heartbeat", daemon=True).start()

    def close(self) -> None:
        """End the heartbeats."""
        self._closed.set()

    def take(self, message: DriverMessage) -> None:
        """Do what the driver wishes; what it wishes to be trained, later."""
        match message:
            case Assign(work=work):
                self._waiting.extend(_Attempt(work.lease, number, lane) for number, lane in enumerate(work.lanes))
            case StopTraining(lease=lease, lane=lane, reason=reason):
                for attempt in self._attempts_of(lease, lane):
                    attempt.stop(reason)
            case SaveAt(lease=lease, lane=lane) | CutWork(lease=lease, lane=lane):
                for attempt in self._attempts_of(lease, lane):
                    attempt.amend(message)
            case Refused(lease=lease, reason=reason):
                for attempt in self._attempts_of(lease):
                    attempt.is_refused = True
                    attempt.stop(reason)
            case DismissWorker(reason=reason):
                self._dismissal = reason
                for attempt in self._attempts():
                    attempt.stop(reason)
        self._end_if_done()

    def drop(self, reason: str) -> None:
        """End, and tell nothing more: the driver holds this launch for lost."""
        self.end = reason
        for attempt in self._attempts():
            attempt.is_refused = True
            attempt.stop(reason)
        self._waiting.clear()

    def train_next(self, look_up: Callable[[], None]) -> bool:
        """Train what waits, and return whether something did.

        Args:
            look_up: called after each report: it passes on what came meanwhile.

        Raises:
            KeyboardInterrupt: the user interrupted the training.
        """
        if self._unsaid:
            self._say_rest()
            return True
        if self.end is not None or not self._waiting:
            return False
        attempt = self._current = self._waiting.popleft()
        try:
            ended = self._train(attempt, look_up)
        except BaseException:  # interrupted in our own code
            self._tell_end(attempt, Ended(Outcome.STOPPED, attempt.resource), is_interrupted=True)
            raise
        interrupt, self._interrupt = self._interrupt, None
        self._tell_end(attempt, ended, is_interrupted=interrupt is not None)
        if interrupt is not None:
            raise KeyboardInterrupt from interrupt
        return True

    def _attempts(self) -> list[_Attempt]:
        return [*self._waiting] if self._current is None else [self._current, *self._waiting]

    def _attempts_of(self, lease: Lease, lane: int | None = None) -> list[_Attempt]:
        return [one for one in self._attempts() if one.lease == lease and lane in (None, one.number)]

    def _train(self, attempt: _Attempt, look_up: Callable[[], None]) -> Ended:
        if isinstance(self._trainable, Ended):
            return self._trainable
        link = _Link(attempt, self._config, self._say, look_up)
        with contextlib.ExitStack() as held:
            try:
                load = None
                if attempt.lane.load is not None:
                    load = str(held.enter_context(self._config.store.fetch(attempt.lane.load)) / "checkpoint")
            except Exception as error:
                return Ended(Outcome.FAILED, attempt.resource, str(error), "checkpoint")
            function = self._guarded(self._trainable, attempt)
            train = Train(attempt.lane.stages, load)
            return run_training(function, train, link, _NoInterrupts(), self._config.metric)

    def _guarded(self, function: TrainFunction, attempt: _Attempt) -> TrainFunction:
        """Let the user's interrupt through as a stop of this training, and show an exception where it happened."""

        def train(trial: TrialContext) -> Any:
            try:
                return function(trial)
            except (KeyboardInterrupt, bdb.BdbQuit) as interrupt:
                self._interrupt = interrupt
                attempt.stop("it was interrupted")
                raise TrialStopped("it was interrupted") from interrupt
            except Exception as error:
                _show(trial.name, error)
                raise

        return train

    def _tell_end(self, attempt: _Attempt, ended: Ended, *, is_interrupted: bool) -> None:
        self._current = None
        if attempt.is_refused:
            self._end_if_done()
            return
        end = TrainingEnded(
            attempt.lease,
            ended.outcome,
            max(ended.resource, attempt.resource),
            attempt.saved[-1] if attempt.saved else None,
            ended.error,
            ended.error_kind,
            attempt.number,
        )
        self._unsaid += [end, *attempt.untold]
        if not is_interrupted:
            self._say_rest()

    def _say_rest(self) -> None:
        unsaid, self._unsaid = self._unsaid, []
        for message in unsaid:
            self._say(message)
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._dismissal is not None and self._current is None and not self._waiting and not self._unsaid:
            self.end = self.end or f"dismissed: {self._dismissal}"

    def _say(self, message: WorkerMessage) -> None:
        self._number += 1
        self._post(*self.key, self._number, message)

    def _beat(self) -> None:
        """Say that the worker lives, also while its trial stands at a breakpoint."""
        while not self._closed.wait(self._config.heartbeat_s):
            self._post(*self.key, 0, Heartbeat())


class _Attempt:
    """One lane of a lease."""

    def __init__(self, lease: Lease, number: int, lane: Lane) -> None:
        self.lease = lease
        self.number = number
        self.lane = lane
        self.resource = lane.stages[0].start
        """Units of training done."""
        self.saved: list[int] = []
        """Resources of its checkpoints, in order, without those whose commit failed on the way."""
        self.untold: list[CheckpointFailed] = []
        """What is to be told after its end: its last checkpoint could not be stored."""
        self.wishes: list[SavePoint | Cut] = []
        """What the driver wished and its training has not seen."""
        self.is_refused = False
        self.stop_reason: str | None = None

    def amend(self, wish: SaveAt | CutWork) -> None:
        """Let it know what else is wanted of it, or what not any more."""
        known = SavePoint(wish.node, wish.resource) if isinstance(wish, SaveAt) else Cut(wish.stop)
        self.wishes.append(known)

    def stop(self, reason: str) -> None:
        """Let it not be trained on."""
        self.stop_reason = self.stop_reason or reason


class _Link:
    """What a trial's context needs; see ``worker.link.Link``."""

    def __init__(
        self, attempt: _Attempt, config: WorkerConfig, say: Callable[[WorkerMessage], None], look_up: Callable[[], None]
    ) -> None:
        self._attempt, self._config, self._say, self._look_up = attempt, config, say, look_up
        self._staged: dict[tuple[int, int], Path] = {}

    def report(self, resource: int, metrics: dict[str, float]) -> None:
        attempt = self._attempt
        attempt.resource = max(attempt.resource, resource)
        if not attempt.is_refused:
            self._say(Reported(attempt.lease, resource, spell_all(metrics), attempt.number))

    def stop_reason(self) -> str | None:
        self._look_up()
        return self._attempt.stop_reason

    def wishes(self) -> list[SavePoint | Cut]:
        wishes, self._attempt.wishes = self._attempt.wishes, []
        return wishes

    def folder(self, stage: int, resource: int) -> Path:
        staged = self._staged[stage, resource] = self._config.store.stage(self._checkpoint(stage, resource))
        return staged / "checkpoint"

    def saved(self, stage: int, resource: int, *, is_last: bool) -> None:
        attempt, checkpoint = self._attempt, self._checkpoint(stage, resource)
        attempt.resource = max(attempt.resource, resource)
        staged = self._staged.pop((stage, resource))
        try:
            size = self._config.store.commit(checkpoint, staged)
        except Exception as error:
            self._config.store.discard(staged)
            failed = CheckpointFailed(attempt.lease, checkpoint, f"{type(error).__name__}: {error}", attempt.number)
            if is_last:
                attempt.saved.append(resource)
                attempt.untold.append(failed)
            elif not attempt.is_refused:
                self._say(failed)
        else:
            attempt.saved.append(resource)
            if not attempt.is_refused:
                self._say(CheckpointCommitted(attempt.lease, checkpoint, size, attempt.number))

    def save_failed(self, stage: int, resource: int, error: Exception) -> None:
        attempt = self._attempt
        attempt.resource = max(attempt.resource, resource)
        if (staged := self._staged.pop((stage, resource), None)) is not None:
            self._config.store.discard(staged)
        text = exception_text(error)
        sys.stderr.write(f"asyncsearch: there is no checkpoint at {resource}, and training goes on.\n{text}\n")
        if not attempt.is_refused:
            self._say(CheckpointFailed(attempt.lease, self._checkpoint(stage, resource), text, attempt.number))

    def _checkpoint(self, stage: int, resource: int) -> CheckpointRef:
        return CheckpointRef(self._attempt.lane.stages[stage].node, resource)


class _NoInterrupts(SigtermGuard):
    """Leaves the signals of this process to its user."""

    def arm(self) -> None:
        """Nothing to do."""


def _load(bundle: bytes) -> TrainFunction | Ended:
    try:
        # The bytes were pickled in this process.
        return as_function(pickle.loads(bundle))  # noqa: S301
    except Exception as error:
        text = f"The trainable could not be loaded: {error}"
        return Ended(Outcome.FAILED, 0, f"{exception_text(error)}\n{text}", kind_of(error))


def _show(trial: str, error: Exception) -> None:
    """Write the traceback from the user's first frame on, and leave it to ``pdb.pm()``."""
    frames = None if error.__traceback__ is None else error.__traceback__.tb_next
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, frames
    text = "".join(traceback.format_exception(type(error), error, frames))
    sys.stderr.write(f"{trial} failed; look around by: import pdb; pdb.pm()\n{text}")
