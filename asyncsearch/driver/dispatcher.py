"""Carries out decisions that are durable: workers are launched, given work and dismissed, and checkpoints deleted."""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import assert_never

from asyncsearch.actions import (
    AddLane,
    AnyAction,
    Assign,
    Branch,
    Compare,
    CreateTrial,
    CutWork,
    DeleteCheckpoint,
    DismissWorker,
    EndProposals,
    EndRun,
    ExtendWork,
    Inherit,
    LaunchWorker,
    MoveTrial,
    Promote,
    SaveAt,
    StopRun,
    StopTraining,
    lanes_given,
)
from asyncsearch.driver.deletions import CheckpointDeletions
from asyncsearch.driver.gangs import Gangs
from asyncsearch.driver.logs import LogSink
from asyncsearch.driver.store_waits import Worker
from asyncsearch.driver.timeouts import Timeouts
from asyncsearch.errors import ProtocolError, is_bug
from asyncsearch.events import AnyEvent, Outcome, TrainingEnded, WorkerLost
from asyncsearch.ids import Lease, WorkerId, trial_name, worker_name
from asyncsearch.rpc.messages import DriverMessage, Refused, Transport
from asyncsearch.shared.session import SharingSession, WorkerAction
from asyncsearch.work import Stage

_log = logging.getLogger(__name__)

_HELD_S = 5.0
"""Time that launches are held back in all: a worker that does not attach must not keep the others from it."""
_DISMISSED_S = 20.0
"""Time that a worker has to end once it is dismissed: another study may wait for its place."""
_NAMED = 8
"""Trials that a shared stage's log names."""


class Dispatcher:
    """The driver's hands. Called in the driver's thread; workers are launched and killed in another."""

    def __init__(
        self,
        timeouts: Timeouts,
        logs: LogSink,
        *,
        launch: Callable[[WorkerId, int], None],
        kill: Callable[[WorkerId, int], None],
        post: Callable[[AnyEvent], None],
        lost: Callable[[WorkerId, int, str], None],
        end: Callable[[EndRun], None],
        call_later: Callable[[float, Callable[[], None]], object],
        launches_at_once: int | None,
    ) -> None:
        """Begin without workers.

        Args:
            timeouts: those of the workers and their attempts.
            logs: the logs of trials.
            launch: starts a worker; may block.
            kill: ends a worker that counts as lost; likewise.
            post: sends an event to the engine.
            lost: reports that a launch has ended; called in any thread.
            end: called when the run ends.
            call_later: calls a function in the driver's thread, so many seconds from now.
            launches_at_once: see ``LaunchOrder``.
        """
        self._timeouts, self._logs = timeouts, logs
        self._launch, self._kill, self._post, self._lost, self._end = launch, kill, post, lost, end
        self.admission: SharingSession | CheckpointDeletions
        """Deletes checkpoints, and sends work to workers as soon as its checkpoints are safe; to be set once."""
        self._transport: Transport | None = None
        self._lost_early: list[WorkerLost] = []
        """Launches that ended before there was a transport, which must refuse them."""
        self._attached: set[Worker] = set()
        """Launches that have attached; nothing can be sent to the others yet."""
        self._are_all_dismissed = False
        self._order = LaunchOrder(launches_at_once)
        self._call_later = call_later
        self._workers = ThreadPoolExecutor(1, "asyncsearch-launch")
        self.gangs = Gangs(self._send)

    def connect(self, transport: Transport) -> None:
        """Set how messages reach the workers."""
        self._transport = transport
        while self._lost_early:
            self._disconnect(self._lost_early.pop())

    @property
    def transport(self) -> Transport:
        """How messages reach the workers."""
        assert self._transport is not None, "connect() comes before the first worker"
        return self._transport

    def attached(self, worker: Worker) -> None:
        """Note that a launch of a worker can be reached."""
        self._attached.add(worker)
        if self._are_all_dismissed:  # else a worker that attaches late waits for work, and the end of the run for it
            self._dismiss_unheard(worker)
        else:
            self._begin(self._order.release())

    def carry_out(self, action: AnyAction) -> None:
        """Carry out a decision, which is in the journal."""
        match action:
            case Assign() | AddLane():
                self.admission.admit(action)
            case StopTraining() | SaveAt() | CutWork() | ExtendWork():
                if not self.admission.delay(action):
                    self.send(action)
            case DismissWorker():
                self._dismiss(action)
            case LaunchWorker():
                self._request((action.worker, action.epoch))
            case DeleteCheckpoint():
                self.admission.delete(action.checkpoint)
            case EndRun():
                self._end(action)
            case CreateTrial() | Inherit() | Compare() | Promote() | Branch() | MoveTrial():
                pass
            case EndProposals() | StopRun():
                pass
            case _:
                assert_never(action)

    def send(self, action: WorkerAction) -> None:
        if isinstance(action, Assign):
            self._timeouts.begin_attempt(action.work.lease)
            self._give(action)
        elif isinstance(action, AddLane):
            self._timeouts.begin_attempt(action.lease, action.lane)
            self._give(action)
        else:
            self.transport.send(action.lease.worker, action.lease.epoch, action)
            if isinstance(action, StopTraining):
                self._timeouts.begin_stop(action.lease)
            elif isinstance(action, ExtendWork):
                self.gangs.extend(action)

    def refuse(self, worker: Worker, lease: Lease, reason: str) -> None:
        """Tell a worker that its messages under a lease do not count."""
        self.transport.send(*worker, Refused(lease, reason))

    def forget(self, event: WorkerLost) -> None:
        """Take nothing from a lost launch of a worker any more, and end it."""
        worker = (event.worker, event.epoch)
        self._timeouts.forget(worker)
        self._disconnect(event)
        if self._end_launch(worker):
            self._begin(self._order.ended(worker))

    def _send(self, worker: WorkerId, epoch: int, message: DriverMessage) -> None:
        self.transport.send(worker, epoch, message)

    def _disconnect(self, lost: WorkerLost) -> None:
        if self._transport is None:
            self._lost_early.append(lost)
        else:
            self._transport.disconnect(lost.worker, lost.epoch, lost.reason)

    def dismiss_all(self) -> None:
        """Let the workers stop their trials: no decision on the study, whose journal cannot be written."""
        self._are_all_dismissed = True
        for worker in self._attached:  # the pool may be ahead: its last decision is not durable
            self._dismiss_unheard(worker)

    def _dismiss_unheard(self, worker: Worker) -> None:
        with contextlib.suppress(Exception):
            self.transport.send(*worker, DismissWorker(*worker, "the store cannot be used", is_unheard=True))

    def close(self) -> None:
        """Wait for the last launch; one that waits for another to attach is not launched any more."""
        self._order = LaunchOrder(None)
        self._workers.shutdown(wait=True)

    def _give(self, action: Assign | AddLane) -> None:
        """Send lanes to their worker."""
        given = lanes_given(action)
        lease = given[0].lease
        for stage in (stage for one in given for stage in one.lane.stages if len(stage.trials) > 1):
            self._logs.note(trial_name(stage.trials[0]), _for_whom(stage))
        try:
            self.transport.send(lease.worker, lease.epoch, action)
            if isinstance(action, Assign):
                self.gangs.begin(action.work)
                for member in action.work.followers:
                    self.transport.send(member.worker, member.epoch, action)
        except ProtocolError as error:
            # Parameters that are too large for a message fail their own trial, not the search.
            text, kind = str(error), type(error).__name__
            for _, number, lane in given:
                start = lane.stages[0].start
                self._post(TrainingEnded(lease, Outcome.FAILED, start, error=text, error_kind=kind, lane=number))

    def _dismiss(self, action: DismissWorker) -> None:
        worker = (action.worker, action.epoch)
        self._timeouts.forget(worker)
        if worker in self._attached:
            self.transport.send(*worker, action)
            self._call_later(_DISMISSED_S, lambda: self._end_dismissed(worker))
        else:
            self._end_launch(worker)  # begins no other: at the end of a run all are dismissed

    def _end_dismissed(self, worker: Worker) -> None:
        with contextlib.suppress(RuntimeError):  # the run has ended, and its launcher sees to it
            self._workers.submit(self._kill, *worker)

    def _request(self, launch: Worker) -> None:
        was_holding = self._order.is_holding
        self._begin(self._order.request(launch))
        if self._order.is_holding and not was_holding:
            self._call_later(_HELD_S, lambda: self._begin(self._order.release()))

    def _begin(self, launches: Iterable[Worker]) -> None:
        for launch in launches:
            self._workers.submit(self._try_launch, *launch)

    def _end_launch(self, launch: Worker) -> bool:
        """End a launch that has not attached; return whether it had begun."""
        if self._order.call_off(launch):
            return False
        self._workers.submit(self._kill, *launch)
        return True

    def _try_launch(self, worker: WorkerId, epoch: int) -> None:
        try:
            self._launch(worker, epoch)
        except Exception as error:
            if is_bug(error):
                _log.warning("%s, epoch %d, could not be launched.", worker_name(worker), epoch, exc_info=True)
            self._lost(worker, epoch, f"it could not be launched: {error}")


def _for_whom(stage: Stage) -> str:
    others = [trial_name(trial) for trial in stage.trials[1 : _NAMED + 1]]
    more = len(stage.trials) - 1 - len(others) + stage.more
    names = ", ".join(others) + (f" and {more} more" if more else "")
    end = "its end" if stage.stop is None else f"{stage.stop:,}"
    return f"units {stage.start:,} to {end} are trained for {names} too"


class LaunchOrder:
    """Holds launches back. Each method returns the launches that begin now, in the order of their requests.

    Workers that share the driver's few cores hinder each other while they start: all would attach late. So few of them
    start at once, and the others as soon as the first is there to train.
    """

    def __init__(self, at_once: int | None) -> None:
        """Begin without launches.

        Args:
            at_once: how many may be starting, from 1, until one has attached; None for any number.
        """
        self._at_once = at_once
        self._waiting: deque[Worker] = deque()
        self._starting: set[Worker] = set()

    @property
    def is_holding(self) -> bool:
        """Whether a launch waits."""
        return bool(self._waiting)

    def request(self, launch: Worker) -> list[Worker]:
        """Take a launch that was decided."""
        self._waiting.append(launch)
        return self._next()

    def ended(self, launch: Worker) -> list[Worker]:
        """Note that a launch has ended, which may not have attached."""
        self._starting.discard(launch)
        return self._next()

    def release(self) -> list[Worker]:
        """Hold nothing back from now on: a worker has attached, or they were held for long."""
        self._at_once = None
        return self._next()

    def call_off(self, launch: Worker) -> bool:
        """Drop a launch if it still waits, and return whether it did."""
        if launch not in self._waiting:
            return False
        self._waiting.remove(launch)
        return True

    def _next(self) -> list[Worker]:
        begun: list[Worker] = []
        while self._waiting and (self._at_once is None or len(self._starting) < self._at_once):
            begun.append(self._waiting.popleft())
            self._starting.add(begun[-1])
        return begun
