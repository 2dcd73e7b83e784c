"""Virtual workers: launched, lost, and reached by messages that take their time. Pure."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from typing import assert_never

import msgspec

from asyncsearch.actions import (
    AddLane,
    AnyAction,
    Assign,
    Branch,
    CreateTrial,
    CutWork,
    DeleteCheckpoint,
    DismissWorker,
    EndProposals,
    EndRun,
    Inherit,
    LaunchWorker,
    MoveTrial,
    Promote,
    SaveAt,
    StopRun,
    StopTraining,
)
from asyncsearch.engine.handling import handle
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import UsageError
from asyncsearch.events import (
    AnyEvent,
    CheckpointCommitted,
    WorkerAttached,
    WorkerLost,
)
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, WorkerId
from asyncsearch.simulate.clock import VirtualClock
from asyncsearch.simulate.options import Delays, Draws, Faults, Loss, TrainingModel
from asyncsearch.simulate.packed_training import PackedTraining
from asyncsearch.simulate.workloads import CheckedWorkload, Failure, Workload
from asyncsearch.work import Stage, Work

_NO_DELAYS, _NO_FAULTS, _TRAINING = Delays(), Faults(), TrainingModel()


class VirtualWorker(msgspec.Struct):
    """A worker that is attached, and how far its work is."""

    epoch: int
    work: Work | None = None
    pack: PackedTraining | None = None
    """The lanes of packed work; None: it has one lane, which the rest describes."""
    resource: int = 0
    """Units of training done, as of ``since_s``."""
    goal: int = 0
    """Where it stops to say or to do something."""
    turn: int = 0
    """Number of its way to a goal; one whose goal was moved is not gone to its end."""
    began_s: float = 0.0
    """When the work came."""
    since_s: float = 0.0
    stage: Stage | None = None
    unit_s: float = 1.0
    """What a unit of the stage takes."""
    failure: Failure | None = None
    """Where the stage fails."""
    slowness: float = 1.0
    size: int = 1
    """How many workers train its work together, itself included."""
    stop: int | None = None
    """Where it was told to end."""
    saves: dict[int, NodeKey] = {}
    """Where it was told to save besides the ends of stages."""


class VirtualCluster(abc.ABC):
    """Workers that are launched, lost and told what to do; what training is, a subclass says."""

    def __init__(
        self,
        state: StudyState,
        workload: Workload,
        *,
        workers: int,
        delays: Delays = _NO_DELAYS,
        faults: Faults = _NO_FAULTS,
        training: TrainingModel = _TRAINING,
        watch: Callable[[float, AnyEvent, Sequence[AnyAction]], None] | None = None,
        clock: VirtualClock | None = None,
    ) -> None:
        self.state = state
        self.clock = VirtualClock() if clock is None else clock
        self.end: EndRun | None = None
        self.ended_s: float | None = None
        """When the run ended, in virtual seconds."""
        self._busy_s = 0.0
        self._workload, self._size, self._delays = CheckedWorkload(workload), workers, delays
        self._failures, self._draws = dict(faults.failures), Draws(faults.chance)
        self._restarts, self._report_every = training.restarts, training.report_every
        self._training = training
        self._watch = watch
        self._workers: dict[WorkerId, VirtualWorker] = {}
        self._down_until: dict[WorkerId, float] = {}
        for loss in faults.losses:
            if loss.worker not in range(workers):
                raise UsageError(f"{loss!r}: of {workers} workers the numbers are 0 to {workers - 1}.")
            self.clock.after(loss.at_s, lambda loss=loss: self._die(loss))  # type: ignore[misc]

    @property
    def busy_s(self) -> float:
        """Virtual seconds for which workers had work, all together; what was lost counts."""
        now = self.clock.now
        trained = [worker for worker in self._workers.values() if worker.work is not None]
        return self._busy_s + sum((now - worker.began_s) * worker.size for worker in trained)

    def _handle(self, event: AnyEvent) -> None:
        actions = handle(self.state, event, self.clock.now)
        if self._watch is not None:
            self._watch(self.clock.now, event, actions)
        for action in actions:
            self._carry_out(action)

    def _send(self, event: AnyEvent) -> None:
        if self._delays.message_s:
            self.clock.after(self._delays.message_s, lambda: self._handle(event))
        else:
            self._handle(event)

    def _carry_out(self, action: AnyAction) -> None:
        match action:
            case LaunchWorker():
                self._launch(action)
            case Assign():
                self.clock.after(self._delays.message_s, lambda: self._begin(action.work))
            case AddLane():
                self.clock.after(self._delays.message_s, lambda: self._add_lane(action))
            case StopTraining():
                self.clock.after(self._delays.message_s, lambda: self._stop(action))
            case SaveAt():
                self.clock.after(self._delays.message_s, lambda: self._save_at(action))
            case CutWork():
                self.clock.after(self._delays.message_s, lambda: self._cut(action))
            case DismissWorker():
                self._release(action.worker)
            case EndRun():
                self.end, self.ended_s = action, self.clock.now
            case CreateTrial() | Inherit() | Promote() | Branch() | MoveTrial():
                pass
            case DeleteCheckpoint() | EndProposals() | StopRun():
                pass
            case _:
                assert_never(action)

    def _launch(self, action: LaunchWorker) -> None:
        delay = self._delays.start_s + max(0.0, self._down_until.get(action.worker, 0.0) - self.clock.now)
        if delay == math.inf:
            return

        def attach() -> None:
            if self.state.pool.is_current(action.worker, action.epoch):
                self._workers[action.worker] = VirtualWorker(action.epoch)
                self._handle(WorkerAttached(action.worker, action.epoch))

        self.clock.after(delay, attach)

    def _die(self, loss: Loss) -> None:
        self._down_until[loss.worker] = self.clock.now + loss.down_s
        self._lose(loss.worker, "it was killed by the script")

    def _lose(self, number: WorkerId, reason: str) -> None:
        self._break_gang(number)
        worker = self._release(number)
        if worker is not None:
            event = WorkerLost(number, worker.epoch, reason)
            self.clock.after(self._delays.detect_s, lambda: self._handle(event))

    def _break_gang(self, number: WorkerId) -> None:
        """End the training of the gang to which a worker belongs that is not its first one."""
        for worker in self._workers.values():
            if worker.work is not None and any(member.worker == number for member in worker.work.followers):
                self._count_busy(worker)
                worker.work = None

    def _release(self, number: WorkerId) -> VirtualWorker | None:
        worker = self._workers.pop(number, None)
        if worker is not None and worker.work is not None:
            self._count_busy(worker)
        return worker

    def _count_busy(self, worker: VirtualWorker) -> None:
        self._busy_s += (self.clock.now - worker.began_s) * worker.size

    def _drop(self, work: Work) -> None:
        worker = self._holder(work)
        if worker is not None and worker.work is work:
            self._lose(work.lease.worker, "its work was lost by chance")

    def _holder(self, work: Work) -> VirtualWorker | None:
        worker = self._workers.get(work.lease.worker)
        return worker if worker is not None and worker.epoch == work.lease.epoch else None

    def _holder_of(self, lease: Lease) -> VirtualWorker | None:
        worker = self._workers.get(lease.worker)
        return worker if worker is not None and worker.work is not None and worker.work.lease == lease else None

    def _unit_s(self, worker: VirtualWorker, stage: Stage) -> float:
        return self._workload.seconds(stage) * worker.slowness / self._training.gang_speedup_of(worker.size)

    def _longest_s(self, worker: VirtualWorker, stages: Sequence[Stage]) -> float:
        """Return how long the stages take if nothing happens: what would be lost later is not lost."""
        return sum((self._stop_of(stage) - stage.start) * self._unit_s(worker, stage) for stage in stages)

    def _stop_of(self, stage: Stage) -> int:
        """Return where a stage ends, beyond its start; one without an end where its trial's function returns."""
        return max(self._workload.units(stage.trials[0]), stage.start + 1) if stage.stop is None else stage.stop

    def _commit(self, work: Work, checkpoint: CheckpointRef, lane: int = 0) -> None:
        def committed() -> None:
            if self._holder(work) is not None:
                self._send(CheckpointCommitted(work.lease, checkpoint, lane=lane))

        self.clock.after(self._delays.commit_s, committed)

    @abc.abstractmethod
    def _begin(self, work: Work) -> None:
        """Train what came to a worker."""

    @abc.abstractmethod
    def _add_lane(self, action: AddLane) -> None:
        """Let a lane join those that train."""

    @abc.abstractmethod
    def _stop(self, action: StopTraining) -> None:
        """Stop a lane."""

    @abc.abstractmethod
    def _save_at(self, action: SaveAt) -> None:
        """Let a lane save on its way."""

    @abc.abstractmethod
    def _cut(self, action: CutWork) -> None:
        """Let a lane end earlier."""
