"""Scripted workers on a virtual clock, driving the engine as it is. Pure: a whole search is a function call.

search = Simulation(state, Curves(seed=1), workers=500)
search.run(num_trials=10_000)
search.state.best(), search.clock.now
"""

from __future__ import annotations

import math

from msgspec import UNSET, UnsetType

from asyncsearch.actions import (
    CutWork,
    EndRun,
    SaveAt,
    StopTraining,
)
from asyncsearch.events import (
    DriverStarted,
    Outcome,
    Reported,
    RunRequested,
    TrainingEnded,
)
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.simulate.packed_workers import PackedWorkers
from asyncsearch.simulate.virtual_cluster import VirtualWorker
from asyncsearch.work import Stage, Work


class Simulation(PackedWorkers):
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
        clock: that other simulations share; None: one of its own.

    Raises:
        UsageError: a worker that the cluster does not have is to die, or the workload returns an impossible value.
    """

    def run(self, num_trials: int | None, until: float = float("inf")) -> EndRun | None:
        """Search until the run ends, or the clock passes ``until`` seconds; return how it ended."""
        self.begin(num_trials)
        self.clock.run(until)
        return self.end

    def begin(self, num_trials: int | None, share: int | UnsetType = UNSET) -> None:
        """Request the run; time passes only in ``run``, or as the clock's owner lets it.

        Args:
            num_trials: as in ``run``.
            share: how many of the workers it may have for now, from 0; UNSET: all.
        """
        self.end = self.ended_s = None
        self._handle(DriverStarted("simulated"))
        self._handle(RunRequested(num_trials, self._size, share))

    def _begin(self, work: Work) -> None:
        worker = self._holder(work)
        if worker is None:
            return
        if len(work.lanes) > 1 or work.is_open is True:
            self._begin_pack(worker, work)
            return
        stages, now = work.lanes[0].stages, self.clock.now
        start = stages[0].start
        worker.work, worker.pack, worker.resource, worker.began_s = work, None, start, now
        worker.stop, worker.saves, worker.stage = None, {}, None
        worker.slowness, worker.size = self._draws.slowness(work.lease.number), 1 + len(work.followers)
        again_s = start * self._unit_s(worker, stages[0]) if self._restarts else 0.0
        meet_s = self._delays.meet_s if worker.size > 1 else 0.0
        worker.since_s = now + self._delays.setup_s + meet_s + again_s
        self._train_on(worker, work)
        lost_after_s = self._draws.lost_after_s(work.lease.number)
        if lost_after_s < math.inf and lost_after_s < worker.since_s - now + self._longest_s(worker, stages):
            self.clock.after(lost_after_s, lambda: self._drop(work))

    def _evaluate(self, worker: VirtualWorker, work: Work) -> None:
        """Report of what is loaded; that takes no time."""
        stage = work.lanes[0].stages[0]
        value = self._workload.value(stage, stage.start)
        self._send(Reported(work.lease, stage.start, {self.state.config.metric: value}))
        if worker.work is work:
            self._end(worker, work, Outcome.RETURNED if stage.stop == stage.max_resource else Outcome.REACHED)

    def _train_on(self, worker: VirtualWorker, work: Work) -> None:
        stage = stage_after(work, worker.resource)
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

    def _goal(self, worker: VirtualWorker, stage: Stage) -> int:
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

    def _count_units(self, worker: VirtualWorker) -> None:
        """Count the units that were done since the worker last stopped for something."""
        done = int((self.clock.now - worker.since_s) / worker.unit_s + 1e-9)
        if done > 0:
            done = min(done, worker.goal - worker.resource - 1)
            worker.resource += done
            worker.since_s += done * worker.unit_s

    def _turn(self, worker: VirtualWorker, work: Work) -> None:
        """Go for another goal, if one lies on the way to the present one."""
        if worker.goal > worker.resource + 1:
            self._count_units(worker)
            self._train_on(worker, work)

    def _pass_boundary(self, worker: VirtualWorker, work: Work, stage: Stage) -> None:
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
        self, worker: VirtualWorker, work: Work, outcome: Outcome, *, saves: NodeKey | None = None, error: str = ""
    ) -> None:
        self._count_busy(worker)
        worker.work = None
        saved = worker.resource if saves is not None else None
        self._send(TrainingEnded(work.lease, outcome, worker.resource, saved, error))
        if saves is not None:
            self._commit(work, CheckpointRef(saves, worker.resource))


def stage_after(work: Work, resource: int) -> Stage:
    """Return the stage in which the unit after ``resource`` lies, or the last one."""
    stages = work.lanes[0].stages
    return next((stage for stage in stages if stage.stop is None or resource < stage.stop), stages[-1])
