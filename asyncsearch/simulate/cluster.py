"""Scripted workers on a virtual clock, driving the engine as it is. Pure: a whole search is a function call.

search = Simulation(state, Curves(seed=1), workers=500)
search.run(num_trials=10_000)
search.state.best(), search.clock.now
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
from asyncsearch.engine.handling import handle
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import UsageError
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
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, WorkerId
from asyncsearch.simulate.checked_workload import CheckedWorkload, Failure
from asyncsearch.simulate.clock import VirtualClock
from asyncsearch.simulate.options import Delays, Faults, Loss, TrainingModel
from asyncsearch.simulate.packed_training import PackedLane, PackedTraining
from asyncsearch.simulate.random_faults import Draws
from asyncsearch.simulate.workloads import Workload
from asyncsearch.work import Stage, Work

_NO_DELAYS, _NO_FAULTS, _TRAINING = Delays(), Faults(), TrainingModel()


class _Worker(msgspec.Struct):
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
    stop: int | None = None
    """Where it was told to end."""
    saves: dict[int, NodeKey] = {}
    """Where it was told to save besides the ends of stages."""


SimulatedStep = tuple[float, AnyEvent, Sequence[AnyAction]]


class Simulation:
    """A cluster of scripted workers and the state that they serve.

    Args:
        state: of a study with a metric that the workload gives.
        workload: what trials cost and are worth. Where a scheduler says no ``max_resource``, a trial ends after
            ``workload.units(trial)`` units, or after one if the workload has no such function. One for which
            ``workload.fails_after(trial)`` returns (units, seconds) fails each time that it is tried: it reports so
            many units, and fails so many seconds of the next one later; with 0 seconds at once, before it is paused.
        workers: how many slots the cluster has.
        delays: how long things take.
        faults: what goes wrong; ``max_losses`` is a matter of the state.
        training: how the trainable reports and resumes.
        watch: called with (time, event, actions) of every step.

    Raises:
        UsageError: a worker that the cluster does not have is to die, or the workload returns an impossible value.
    """

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
    ) -> None:
        self.state = state
        self.clock = VirtualClock()
        self.end: EndRun | None = None
        self.ended_s: float | None = None
        """When the run ended, in virtual seconds."""
        self._busy_s = 0.0
        self._workload, self._size, self._delays = CheckedWorkload(workload), workers, delays
        self._failures, self._draws = dict(faults.failures), Draws(faults.chance)
        self._restarts, self._report_every = training.restarts, training.report_every
        self._pack_speedup = training.pack_speedup
        self._watch = watch
        self._workers: dict[WorkerId, _Worker] = {}
        self._down_until: dict[WorkerId, float] = {}
        for loss in faults.losses:
            if loss.worker not in range(workers):
                raise UsageError(f"{loss!r}: of {workers} workers the numbers are 0 to {workers - 1}.")
            self.clock.after(loss.at_s, lambda loss=loss: self._die(loss))  # type: ignore[misc]

    def run(self, num_trials: int | None, until: float = float("inf")) -> EndRun | None:
        """Search until the run ends, or the clock passes ``until`` seconds; return how it ended."""
        self.end = self.ended_s = None
        self._handle(DriverStarted("simulated"))
        self._handle(RunRequested(num_trials, self._size))
        self.clock.run(until)
        return self.end

    @property
    def busy_s(self) -> float:
        """Virtual seconds for which workers had work, all together; what was lost counts."""
        now = self.clock.now
        return self._busy_s + sum(now - worker.began_s for worker in self._workers.values() if worker.work is not None)

    def _handle(self, event: AnyEvent) -> None:
        actions = handle(self.state, event, self.clock.now)
        if self._watch is not None:
            self._watch(self.clock.now, event, actions)
        for action in actions:
            self._carry_out(action)

    def _send(self, event: AnyEvent) -> None:
        """Let the driver hear of something as soon as a message takes to travel."""
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
                self._workers[action.worker] = _Worker(action.epoch)
                self._handle(WorkerAttached(action.worker, action.epoch))

        self.clock.after(delay, attach)

    def _die(self, loss: Loss) -> None:
        self._down_until[loss.worker] = self.clock.now + loss.down_s
        self._lose(loss.worker, "it was killed by the script")

    def _lose(self, number: WorkerId, reason: str) -> None:
        worker = self._release(number)
        if worker is not None:
            event = WorkerLost(number, worker.epoch, reason)
            self.clock.after(self._delays.detect_s, lambda: self._handle(event))

    def _release(self, number: WorkerId) -> _Worker | None:
        worker = self._workers.pop(number, None)
        if worker is not None and worker.work is not None:
            self._busy_s += self.clock.now - worker.began_s
        return worker

    def _drop(self, work: Work) -> None:
        worker = self._holder(work)
        if worker is not None and worker.work is work:
            self._lose(work.lease.worker, "its work was lost by chance")

    def _begin(self, work: Work) -> None:
        worker = self._holder(work)
        if worker is None:
            return
        if len(work.lanes) > 1:
            self._begin_pack(worker, work)
            return
        stages, now = work.lanes[0].stages, self.clock.now
        start = stages[0].start
        worker.work, worker.pack, worker.resource, worker.began_s = work, None, start, now
        worker.stop, worker.saves, worker.stage = None, {}, None
        worker.slowness = self._draws.slowness(work.lease.number)
        again_s = start * self._unit_s(worker, stages[0]) if self._restarts else 0.0
        worker.since_s = now + self._delays.setup_s + again_s
        self._train_on(worker, work)
        lost_after_s = self._draws.lost_after_s(work.lease.number)
        if lost_after_s < math.inf and lost_after_s < worker.since_s - now + self._longest_s(worker, stages):
            self.clock.after(lost_after_s, lambda: self._drop(work))

    # Packs.

    def _begin_pack(self, worker: _Worker, work: Work) -> None:
        now, pack = self.clock.now, PackedTraining(work, self._workload, self._pack_speedup)
        worker.work, worker.pack, worker.began_s = work, pack, now
        worker.slowness = self._draws.slowness(work.lease.number)
        again = max(lane.resource for lane in pack.lanes.values()) if self._restarts else 0
        setup_s = self._delays.setup_s + again * pack.round_s() * worker.slowness
        self._begin_round(worker, work, setup_s)
        lost_after_s = self._draws.lost_after_s(work.lease.number)
        if lost_after_s < setup_s + pack.longest_s() * worker.slowness:
            self.clock.after(lost_after_s, lambda: self._drop(work))

    def _begin_round(self, worker: _Worker, work: Work, setup_s: float = 0.0) -> None:
        assert worker.pack is not None
        self.clock.after(setup_s + worker.pack.round_s() * worker.slowness, lambda: self._end_round(work))

    def _end_round(self, work: Work) -> None:
        """Let each lane report the unit that it has trained."""
        worker = self._holder(work)
        if worker is None or worker.work is not work or worker.pack is None:
            return
        pack = worker.pack
        for lane in list(pack.lanes.values()):
            if lane.number in pack.lanes:  # a report before may have stopped it
                self._train_unit(worker, work, lane)
            if worker.work is not work:
                return
        self._begin_round(worker, work)

    def _train_unit(self, worker: _Worker, work: Work, lane: PackedLane) -> None:
        pack, stage = worker.pack, lane.stage
        assert pack is not None
        failure, trial = pack.failure(lane), stage.trials[0]
        if failure is not None and lane.resource >= failure.units:
            self._end_lane(worker, work, lane, Outcome.FAILED, error="it failed as the workload says")
            return
        lane.resource += 1
        if self._failures.get(trial) == lane.resource:
            del self._failures[trial]
            self._end_lane(worker, work, lane, Outcome.FAILED, error="it raised as the script says")
            return
        node = pack.saved_node(lane, stage)
        is_last, every = pack.ends(lane, stage), self._report_every
        if is_last or node is not None or (every is not None and lane.resource % every == 0):
            value = self._workload.value(stage, lane.resource)
            self._send(Reported(work.lease, lane.resource, {self.state.config.metric: value}, lane.number))
        if lane.number not in pack.lanes or worker.work is not work:
            return
        if failure is not None and failure == (lane.resource, 0.0):
            self._end_lane(worker, work, lane, Outcome.FAILED, error="it failed as the workload says")
        elif pack.ends(lane, stage):  # the report may have cut it
            at_end = stage.stop is None or lane.resource == stage.max_resource
            outcome = Outcome.RETURNED if at_end else Outcome.REACHED
            self._end_lane(worker, work, lane, outcome, saves=stage.node if stage.save else None)
        elif (node := pack.saved_node(lane, stage)) is not None:
            self._commit(work, CheckpointRef(node, lane.resource), lane.number)

    def _end_lane(
        self,
        worker: _Worker,
        work: Work,
        lane: PackedLane,
        outcome: Outcome,
        *,
        saves: NodeKey | None = None,
        error: str = "",
    ) -> None:
        assert worker.pack is not None
        del worker.pack.lanes[lane.number]
        if not worker.pack.lanes:
            self._busy_s += self.clock.now - worker.began_s
            worker.work = worker.pack = None
        saved = lane.resource if saves is not None else None
        self._send(TrainingEnded(work.lease, outcome, lane.resource, saved, error, lane=lane.number))
        if saves is not None:
            self._commit(work, CheckpointRef(saves, lane.resource), lane.number)

    def _packed_lane(self, worker: _Worker | None, number: int) -> PackedLane | None:
        """Return a lane of packed work that has not ended; None: there is none."""
        return None if worker is None or worker.pack is None else worker.pack.lanes.get(number)

    def _unit_s(self, worker: _Worker, stage: Stage) -> float:
        return self._workload.seconds(stage) * worker.slowness

    def _longest_s(self, worker: _Worker, stages: Sequence[Stage]) -> float:
        """Return how long the stages take if nothing happens: what would be lost later is not lost."""
        return sum((self._stop_of(stage) - stage.start) * self._unit_s(worker, stage) for stage in stages)

    def _stop_of(self, stage: Stage) -> int:
        """Return where a stage ends, beyond its start; one without an end where its trial's function returns."""
        return max(self._workload.units(stage.trials[0]), stage.start + 1) if stage.stop is None else stage.stop

    def _holder(self, work: Work) -> _Worker | None:
        worker = self._workers.get(work.lease.worker)
        return worker if worker is not None and worker.epoch == work.lease.epoch else None

    def _holder_of(self, lease: Lease) -> _Worker | None:
        worker = self._workers.get(lease.worker)
        return worker if worker is not None and worker.work is not None and worker.work.lease == lease else None

    def _evaluate(self, worker: _Worker, work: Work) -> None:
        """Report of what is loaded; that takes no time."""
        stage = work.lanes[0].stages[0]
        value = self._workload.value(stage, stage.start)
        self._send(Reported(work.lease, stage.start, {self.state.config.metric: value}))
        if worker.work is work:
            self._end(worker, work, Outcome.RETURNED if stage.stop == stage.max_resource else Outcome.REACHED)

    def _train_on(self, worker: _Worker, work: Work) -> None:
        stage = _stage_after(work, worker.resource)
        if stage.start == stage.stop:
            self.clock.at(worker.since_s, lambda: self._evaluate(worker, work))
            return
        if stage is not worker.stage:
            worker.stage, worker.unit_s = stage, self._unit_s(worker, stage)
            worker.failure = self._workload.failure(stage.trials[0])
        worker.turn += 1
        turn, failure = worker.turn, worker.failure
        if failure is not None and worker.resource >= failure.units:
            worker.goal = worker.resource + 1  # which it does not reach
            self.clock.at(worker.since_s + failure.seconds * worker.slowness, lambda: self._fail(work, turn))
            return
        worker.goal = worker.resource + 1 if self._report_every == 1 else self._goal(worker, stage)
        ends_s = worker.since_s + (worker.goal - worker.resource) * worker.unit_s
        self.clock.at(ends_s, lambda: self._reach_goal(work, stage, turn, ends_s))

    def _goal(self, worker: _Worker, stage: Stage) -> int:
        """Return the resource, beyond the present one, at which there is next something to report or to do."""
        here, every = worker.resource, self._report_every
        goals = [self._stop_of(stage), *worker.saves]
        if every is not None:
            goals.append(here - here % every + every)
        if worker.stop is not None:
            goals.append(max(worker.stop, here + 1))
        if stage.trials[0] in self._failures:
            goals.append(self._failures[stage.trials[0]])
        if worker.failure is not None:
            goals.append(worker.failure.units)
        return min(goal for goal in goals if goal > here)

    def _reach_goal(self, work: Work, stage: Stage, turn: int, now: float) -> None:
        worker = self._holder(work)
        if worker is None or worker.work is not work or worker.turn != turn:
            return
        worker.resource, worker.since_s = worker.goal, now
        trial = stage.trials[0]
        if self._failures.get(trial) == worker.resource:
            del self._failures[trial]
            self._end(worker, work, Outcome.FAILED, error="it raised as the script says")
            return
        value = self._workload.value(stage, worker.resource)
        self._send(Reported(work.lease, worker.resource, {self.state.config.metric: value}))
        if worker.work is not work:
            return
        if worker.failure is not None and worker.failure == (worker.resource, 0.0):
            self._fail(work, turn)
        else:
            self._pass_boundary(worker, work, stage)

    def _fail(self, work: Work, turn: int) -> None:
        worker = self._holder(work)
        if worker is not None and worker.work is work and worker.turn == turn:
            self._end(worker, work, Outcome.FAILED, error="it failed as the workload says")

    def _count_units(self, worker: _Worker) -> None:
        """Count the units that were done since the worker last stopped for something."""
        done = int((self.clock.now - worker.since_s) / worker.unit_s + 1e-9)
        if done > 0:
            done = min(done, worker.goal - worker.resource - 1)
            worker.resource += done
            worker.since_s += done * worker.unit_s

    def _turn(self, worker: _Worker, work: Work) -> None:
        """Go for another goal, if one lies on the way to the present one."""
        if worker.goal > worker.resource + 1:
            self._count_units(worker)
            self._train_on(worker, work)

    def _pass_boundary(self, worker: _Worker, work: Work, stage: Stage) -> None:
        stop = self._stop_of(stage)
        is_last = stage is work.lanes[0].stages[-1]
        if worker.resource >= (worker.stop or stop) and (is_last or worker.stop is not None):
            at_end = stage.stop is None or worker.resource == stage.max_resource
            saves = stage.node if stage.save else None
            self._end(worker, work, Outcome.RETURNED if at_end else Outcome.REACHED, saves=saves)
            return
        node = stage.node if worker.resource == stop and stage.save else worker.saves.get(worker.resource)
        if node is not None:
            self._commit(work, CheckpointRef(node, worker.resource))
        self._train_on(worker, work)

    def _stop(self, action: StopTraining) -> None:
        worker = self._holder_of(action.lease)
        lane = self._packed_lane(worker, action.lane)
        if worker is None or worker.work is None:
            return
        if lane is not None:
            self._end_lane(worker, worker.work, lane, Outcome.STOPPED)
        elif worker.pack is None:
            self._count_units(worker)
            self._end(worker, worker.work, Outcome.STOPPED)

    def _save_at(self, action: SaveAt) -> None:
        worker = self._holder_of(action.lease)
        lane = self._packed_lane(worker, action.lane)
        if lane is not None:
            if action.resource > lane.resource:
                lane.saves[action.resource] = action.node
        elif worker is not None and worker.pack is None and worker.work and action.resource > worker.resource:
            worker.saves[action.resource] = action.node
            self._turn(worker, worker.work)

    def _cut(self, action: CutWork) -> None:
        worker = self._holder_of(action.lease)
        lane = self._packed_lane(worker, action.lane)
        if lane is not None:
            lane.stop = action.stop
        elif worker is not None and worker.pack is None and worker.work is not None:
            worker.stop = action.stop
            self._turn(worker, worker.work)

    def _end(
        self, worker: _Worker, work: Work, outcome: Outcome, *, saves: NodeKey | None = None, error: str = ""
    ) -> None:
        self._busy_s += self.clock.now - worker.began_s
        worker.work = None
        saved = worker.resource if saves is not None else None
        self._send(TrainingEnded(work.lease, outcome, worker.resource, saved, error))
        if saves is not None:
            self._commit(work, CheckpointRef(saves, worker.resource))

    def _commit(self, work: Work, checkpoint: CheckpointRef, lane: int = 0) -> None:
        def committed() -> None:
            if self._holder(work) is not None:
                self._send(CheckpointCommitted(work.lease, checkpoint, lane=lane))

        self.clock.after(self._delays.commit_s, committed)


def _stage_after(work: Work, resource: int) -> Stage:
    """Return the stage in which the unit after ``resource`` lies, or the last one."""
    stages = work.lanes[0].stages
    return next((stage for stage in stages if stage.stop is None or resource < stage.stop), stages[-1])
