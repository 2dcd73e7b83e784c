"""Scripted workers on a virtual clock, driving the engine as it is. Pure: a whole search is a function call.

search = Simulation(state, Curves(seed=1), workers=500)
search.run(num_trials=10_000)
search.state.best(), search.clock.now
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

import msgspec

from asyncsearch.actions import (
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
from asyncsearch.engine.state import StudyState
from asyncsearch.events import (
    AnyEvent,
    CheckpointCommitted,
    DriverStarted,
    Outcome,
    Reported,
    RunRequested,
    TrainingEnded,
    WorkerAttached,
    WorkerLost,
)
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, TrialId, WorkerId
from asyncsearch.nonfinite import spell
from asyncsearch.simulate.clock import VirtualClock
from asyncsearch.simulate.workloads import Workload
from asyncsearch.work import Stage, Work


class Loss(msgspec.Struct, frozen=True):
    """A worker dies at a point in time; launched again, it needs ``down_s`` seconds more to attach."""

    worker: WorkerId
    at_s: float
    down_s: float = 0.0


class Delays(msgspec.Struct, frozen=True, kw_only=True):
    """How long things take, in virtual seconds."""

    start_s: float = 0.0
    """From a launch to the worker's first message."""
    message_s: float = 0.0
    """From one side of a stream to the other."""
    commit_s: float = 0.0
    """From the end of training to a durable checkpoint."""
    detect_s: float = 0.0
    """From the death of a worker to the driver's knowing it."""


_NO_DELAYS = Delays()


class _Worker(msgspec.Struct):
    epoch: int
    work: Work | None = None
    resource: int = 0
    stop: int | None = None
    """Where it was told to end."""
    saves: dict[int, NodeKey] = {}
    """Where it was told to save besides the ends of stages."""


Step = tuple[float, AnyEvent, Sequence[AnyAction]]


class Simulation:
    """A cluster of scripted workers and the state that they serve.

    Args:
        state: of a study with a metric that the workload gives.
        workload: what trials cost and are worth.
        workers: how many slots the cluster has.
        delays: how long things take.
        losses: which workers die when.
        failures: which trials raise, at which resource, once.
        watch: called with (time, event, actions) of every step.
    """

    def __init__(
        self,
        state: StudyState,
        workload: Workload,
        *,
        workers: int,
        delays: Delays = _NO_DELAYS,
        losses: Sequence[Loss] = (),
        failures: Mapping[TrialId, int] | None = None,
        watch: Callable[[float, AnyEvent, Sequence[AnyAction]], None] | None = None,
    ) -> None:
        self.state = state
        self.clock = VirtualClock()
        self.end: EndRun | None = None
        self.busy_s = 0.0
        """Virtual seconds of training done by all workers together."""
        self._workload, self._size, self._delays = workload, workers, delays
        self._failures = dict(failures or {})
        self._watch = watch
        self._workers: dict[WorkerId, _Worker] = {}
        self._down_until: dict[WorkerId, float] = {}
        for loss in losses:
            self.clock.after(loss.at_s, lambda loss=loss: self._die(loss))  # type: ignore[misc]

    def run(self, num_trials: int | None, until: float = float("inf")) -> EndRun | None:
        """Search until the run ends, or the clock passes ``until`` seconds; return how it ended."""
        self.end = None
        self._tell(DriverStarted("simulated"))
        self._tell(RunRequested(num_trials, self._size))
        self.clock.run(until)
        return self.end

    def _tell(self, event: AnyEvent) -> None:
        actions = self.state.handle(event, self.clock.now)
        if self._watch is not None:
            self._watch(self.clock.now, event, actions)
        for action in actions:
            self._carry_out(action)

    def _send(self, event: AnyEvent) -> None:
        """Let the driver hear of something as soon as a message takes to travel."""
        if self._delays.message_s:
            self.clock.after(self._delays.message_s, lambda: self._tell(event))
        else:
            self._tell(event)

    def _carry_out(self, action: AnyAction) -> None:
        match action:
            case LaunchWorker():
                self._launch(action)
            case Assign():
                self.clock.after(self._delays.message_s, lambda: self._begin(action.work))
            case StopTraining():
                self.clock.after(self._delays.message_s, lambda: self._stop(action))
            case SaveAt():
                self.clock.after(self._delays.message_s, lambda: self._save_at(action))
            case CutWork():
                self.clock.after(self._delays.message_s, lambda: self._cut(action))
            case DismissWorker():
                self._workers.pop(action.worker, None)
            case EndRun():
                self.end = action
            case CreateTrial() | Inherit() | Promote() | Branch() | MoveTrial():
                pass
            case DeleteCheckpoint() | EndProposals() | StopRun():
                pass
            case _:
                assert_never(action)

    def _launch(self, action: LaunchWorker) -> None:
        delay = self._delays.start_s + max(0.0, self._down_until.get(action.worker, 0.0) - self.clock.now)

        def attach() -> None:
            if self.state.pool.is_current(action.worker, action.epoch):
                self._workers[action.worker] = _Worker(action.epoch)
                self._tell(WorkerAttached(action.worker, action.epoch))

        self.clock.after(delay, attach)

    def _die(self, loss: Loss) -> None:
        worker = self._workers.pop(loss.worker, None)
        self._down_until[loss.worker] = self.clock.now + loss.down_s
        if worker is not None:
            event = WorkerLost(loss.worker, worker.epoch, "it was killed by the script")
            self.clock.after(self._delays.detect_s, lambda: self._tell(event))

    def _begin(self, work: Work) -> None:
        worker = self._holder(work)
        if worker is not None:
            worker.work, worker.resource = work, work.lanes[0].stages[0].start
            worker.stop, worker.saves = None, {}
            self._train_on(work)

    def _holder(self, work: Work) -> _Worker | None:
        worker = self._workers.get(work.lease.worker)
        return worker if worker is not None and worker.epoch == work.lease.epoch else None

    def _holder_of(self, lease: Lease) -> _Worker | None:
        worker = self._workers.get(lease.worker)
        return worker if worker is not None and worker.work is not None and worker.work.lease == lease else None

    def _train_on(self, work: Work) -> None:
        worker = self._holder(work)
        assert worker is not None
        stage = _stage_after(work, worker.resource)
        seconds = self._workload.seconds(stage.trials[0], stage.params)
        self.clock.after(seconds, lambda: self._finish_unit(work, stage, seconds))

    def _finish_unit(self, work: Work, stage: Stage, seconds: float) -> None:
        worker = self._holder(work)
        if worker is None or worker.work is not work:
            return
        worker.resource += 1
        self.busy_s += seconds
        trial = stage.trials[0]
        if self._failures.get(trial) == worker.resource:
            del self._failures[trial]
            self._end(worker, work, Outcome.FAILED, error="it raised as the script says")
            return
        value = self._workload.value(trial, stage.params, worker.resource)
        self._send(Reported(work.lease, worker.resource, {self.state.config.metric: spell(value)}))
        if worker.work is work:
            self._pass_boundary(worker, work, stage)

    def _pass_boundary(self, worker: _Worker, work: Work, stage: Stage) -> None:
        stop = stage.stop or 1
        is_last = stage is work.lanes[0].stages[-1]
        if worker.resource >= (worker.stop or stop) and (is_last or worker.stop is not None):
            at_end = stage.stop is None or worker.resource == stage.max_resource
            saves = stage.node if stage.save else None
            self._end(worker, work, Outcome.RETURNED if at_end else Outcome.REACHED, saves=saves)
            return
        node = stage.node if worker.resource == stop and stage.save else worker.saves.get(worker.resource)
        if node is not None:
            self._commit(worker, work, CheckpointRef(node, worker.resource))
        self._train_on(work)

    def _stop(self, action: StopTraining) -> None:
        worker = self._holder_of(action.lease)
        if worker is not None and worker.work is not None:
            self._end(worker, worker.work, Outcome.STOPPED)

    def _save_at(self, action: SaveAt) -> None:
        worker = self._holder_of(action.lease)
        if worker is not None and action.resource > worker.resource:
            worker.saves[action.resource] = action.node

    def _cut(self, action: CutWork) -> None:
        worker = self._holder_of(action.lease)
        if worker is not None:
            worker.stop = action.stop

    def _end(
        self, worker: _Worker, work: Work, outcome: Outcome, *, saves: NodeKey | None = None, error: str = ""
    ) -> None:
        worker.work = None
        saved = worker.resource if saves is not None else None
        self._send(TrainingEnded(work.lease, outcome, worker.resource, saved, error))
        if saves is not None:
            self._commit(worker, work, CheckpointRef(saves, worker.resource))

    def _commit(self, worker: _Worker, work: Work, checkpoint: CheckpointRef) -> None:
        commit, epoch = CheckpointCommitted(work.lease, checkpoint), worker.epoch

        def committed() -> None:
            holder = self._workers.get(work.lease.worker)
            if holder is not None and holder.epoch == epoch:
                self._send(commit)

        self.clock.after(self._delays.commit_s, committed)


def _stage_after(work: Work, resource: int) -> Stage:
    """Return the stage in which the unit after ``resource`` lies, or the last one."""
    stages = work.lanes[0].stages
    return next((stage for stage in stages if stage.stop is None or resource < stage.stop), stages[-1])
