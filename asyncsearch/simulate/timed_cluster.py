"""Virtual workers on a clock: launched, lost, and reached by messages that take their time. Pure."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence

import msgspec

from asyncsearch.actions import (
    AddLane,
    AnyAction,
    Assign,
    CutWork,
    DismissWorker,
    EndRun,
    ExtendWork,
    LaunchWorker,
    SaveAt,
    StopTraining,
)
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.stop_decisions import due_s
from asyncsearch.engine.stopping import judged_after
from asyncsearch.errors import UsageError
from asyncsearch.events import (
    AnyEvent,
    CheckpointCommitted,
    Outcome,
    Reported,
    RuleDue,
    TrainingEnded,
    WorkerAttached,
    WorkerLost,
)
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, WorkerId
from asyncsearch.simulate.held_slots import HeldSlots
from asyncsearch.simulate.options import Delays, Draws, Faults, Loss, TrainingModel
from asyncsearch.simulate.virtual_cluster import VirtualClock, VirtualCluster, VirtualLane, VirtualWorker
from asyncsearch.simulate.workloads import CheckedWorkload, Failure, Workload
from asyncsearch.sizing.packing import grouping_by
from asyncsearch.work import Stage, Work

_LATER_S = 1e-6
"""How much later than a rule is due it is asked: sums of times are not exact."""
_NO_DELAYS, _NO_FAULTS, _TRAINING = Delays(), Faults(), TrainingModel()


class TimedCluster(VirtualCluster):
    """A cluster on a virtual clock; a subclass trains. See ``Simulation`` for the arguments."""

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
        super().__init__(state)
        self.clock = VirtualClock() if clock is None else clock
        self.ended_s: float | None = None
        """When the run ended, in virtual seconds."""
        self._busy_s = 0.0
        self.held = HeldSlots(state, self.clock, delays.release_idle_s, self.tell)
        self._workload, self._size, self._delays = CheckedWorkload(workload), workers, delays
        self._failures, self._draws = dict(faults.failures), Draws(faults.chance)
        self._training, self._report_every = training, training.report_every
        self._group = grouping_by(state.config.pack_by)
        self._watcher = watch
        self._workers: dict[WorkerId, VirtualWorker] = {}
        self._rule_due_s: float | None = None
        """When a stop rule is asked next because of time alone."""
        self._down_until: dict[WorkerId, float] = {}
        for loss in faults.losses:
            if loss.worker not in range(workers):
                raise UsageError(f"{loss!r}: of {workers} workers the numbers are 0 to {workers - 1}.")
            self.clock.after(loss.at_s, lambda loss=loss: self._die(loss))  # type: ignore[misc]

    @property
    def now(self) -> float:
        """The virtual time."""
        return self.clock.now

    @property
    def busy_s(self) -> float:
        """Virtual seconds for which workers had work, all together, lost work included."""
        trained = [worker for worker in self._workers.values() if worker.work is not None]
        return self._busy_s + sum((self.clock.now - worker.began_s) * worker.size for worker in trained)

    def tell(self, event: AnyEvent) -> None:
        super().tell(event)
        self.held.observe()

    # Messages, each after its time.

    def _watch(self, event: AnyEvent, actions: Sequence[AnyAction]) -> None:
        if self._watcher is not None:
            self._watcher(self.clock.now, event, actions)
        due = None if self.state.stop_facts is None else due_s(self.state, self.clock.now)
        if due is not None and due != self._rule_due_s:
            self._rule_due_s = due
            self.clock.at(due + _LATER_S, lambda: self.tell(RuleDue()))

    def _end_run(self, action: EndRun) -> None:
        super()._end_run(action)
        self.ended_s = self.clock.now

    def _send(self, event: AnyEvent) -> None:
        if self._delays.message_s:
            self.clock.after(self._delays.message_s, lambda: self.tell(event))
        else:
            self.tell(event)

    def _launch(self, action: LaunchWorker) -> None:
        self.held.begin(action.worker)
        delay = self._delays.start_s + max(0.0, self._down_until.get(action.worker, 0.0) - self.clock.now)
        if delay == math.inf:
            return

        def attach() -> None:
            if self.state.pool.is_current(action.worker, action.epoch):
                self._workers[action.worker] = VirtualWorker(action.epoch)
                self.tell(WorkerAttached(action.worker, action.epoch))

        self.clock.after(delay, attach)

    def _assign(self, action: Assign) -> None:
        self.clock.after(self._delays.message_s, lambda: self._begin(action.work))

    def _add_lane(self, action: AddLane) -> None:
        self.clock.after(self._delays.message_s, lambda: self._join(action))

    def _stop(self, action: StopTraining) -> None:
        def stop(worker: VirtualWorker, lane: VirtualLane) -> None:
            self._count_units(worker)
            self._end(worker, lane, Outcome.STOPPED)

        self._reach_lane(action.lease, action.lane, stop)

    def _amend(self, action: SaveAt | CutWork | ExtendWork) -> None:
        def amend(worker: VirtualWorker, lane: VirtualLane) -> None:
            if isinstance(action, CutWork):
                lane.stop = action.stop
            elif isinstance(action, ExtendWork):
                *before, last = lane.stages
                lane.stages = (*before, msgspec.structs.replace(last, save=action.save), *action.stages)
                return
            elif action.resource > lane.resource:
                lane.saves[action.resource] = action.node
            else:
                return
            if (
                worker.pack is None and not lane.is_saving and worker.goal > lane.resource + 1
            ):  # another goal may lie before the present one
                self._count_units(worker)
                self._leap(worker, lane)

        self._reach_lane(action.lease, action.lane, amend)

    def _reach_lane(self, lease: Lease, number: int, act: Callable[[VirtualWorker, VirtualLane], None]) -> None:
        """Let a message come to a lane, unless it has ended by then."""

        def come() -> None:
            worker = self._workers.get(lease.worker)
            if worker is not None and worker.work is not None and worker.work.lease == lease and number in worker.lanes:
                act(worker, worker.lanes[number])

        self.clock.after(self._delays.message_s, come)

    # Losses

    def _dismiss(self, action: DismissWorker) -> None:
        self._release(action.worker)

    def _die(self, loss: Loss) -> None:
        self._down_until[loss.worker] = self.clock.now + loss.down_s
        self._lose(loss.worker, "it was killed by the script")

    def _lose(self, number: WorkerId, reason: str) -> None:
        self._break_gang(number)
        worker = self._release(number)
        if worker is not None:
            event = WorkerLost(number, worker.epoch, reason)
            self.clock.after(self._delays.detect_s, lambda: self.tell(event))

    def _break_gang(self, number: WorkerId) -> None:
        """End the training of the gang to which a worker belongs that is not its first one."""
        for worker in self._workers.values():
            if worker.work is not None and any(member.worker == number for member in worker.work.followers):
                self._count_busy(worker)
                worker.work = None

    def _release(self, number: WorkerId) -> VirtualWorker | None:
        self.held.end(number)
        worker = self._workers.pop(number, None)
        if worker is not None and worker.work is not None:
            self._count_busy(worker)
        return worker

    def _count_busy(self, worker: VirtualWorker) -> None:
        self._busy_s += (self.clock.now - worker.began_s) * worker.size

    def _lose_by_chance(self, worker: VirtualWorker, work: Work, lease: int, lasts_s: Callable[[], float]) -> None:
        """Lose the work of a worker when chance hits ``lease`` in the time that the work takes."""
        lost_after_s = self._draws.lost_after_s(lease)
        if lost_after_s < math.inf and lost_after_s < lasts_s():
            self.clock.after(lost_after_s, lambda: self._drop(worker, work))

    def _drop(self, worker: VirtualWorker, work: Work) -> None:
        if self._workers.get(work.lease.worker) is worker and worker.work is work:
            self._lose(work.lease.worker, "its work was lost by chance")

    # Ends of units

    def _take(self, worker: VirtualWorker, work: Work) -> None:
        worker.work, worker.lanes, worker.pack, worker.stage = work, {}, None, None
        worker.began_s = self.clock.now
        worker.setup_s = worker.load_s = worker.saved_s = worker.waited_s = 0.0

    def _holder(self, lease: Lease) -> VirtualWorker | None:
        worker = self._workers.get(lease.worker)
        return worker if worker is not None and worker.epoch == lease.epoch else None

    def _unit_s(self, worker: VirtualWorker, stage: Stage) -> float:
        return self._workload.seconds(stage) * worker.slowness / self._training.gang_speedup_of(worker.size)

    def _stop_of(self, stage: Stage) -> int:
        """Return where a stage ends, beyond its start; one without an end where its trial's function returns."""
        return max(self._workload.units(stage.trials[0]), stage.start + 1) if stage.stop is None else stage.stop

    def _report(self, work: Work, lane: VirtualLane, stage: Stage) -> None:
        value = self._workload.value(stage, lane.resource)
        spent = self._workers[work.lease.worker].spent(self.clock.now)
        metrics = {self.state.config.metric: value}
        self._send(Reported(work.lease, lane.resource, metrics, lane.number, spent=spent))

    def _goes_on(
        self, worker: VirtualWorker, lane: VirtualLane, stage: Stage, failure: Failure | None, *, reports: bool = True
    ) -> bool:
        """Let a lane report the unit that it has trained, and save or end there; return whether it trains on."""
        work, trial = worker.work, stage.trials[0]
        assert work is not None
        if self._failures.get(trial) == lane.resource:
            del self._failures[trial]
            self._end(worker, lane, Outcome.FAILED, error="it raised as the script says")
            return False
        if reports:
            self._report(work, lane, stage)
        if worker.work is not work or worker.lanes.get(lane.number) is not lane:  # the report has ended it
            return False
        if failure is not None and failure == (lane.resource, 0.0):
            self._fail(worker, lane)
            return False
        is_kept = lane.ends(stage, self._stop_of(stage)) and stage.save
        if reports and (is_kept or lane.resource >= (lane.judged or math.inf)):
            self._await_verdict(worker, lane)
            return False
        return self._passes(worker, lane)

    def _answered(self, work: Work, lane: VirtualLane) -> bool:
        """Let a lane hear what is decided by its report; return whether it still trains."""
        worker = self._workers.get(work.lease.worker)
        if worker is None or worker.work is not work or worker.lanes.get(lane.number) is not lane:
            return False
        if worker.pack is None:
            worker.waited_s += 2 * self._delays.message_s
        lane.judged = judged_after(self.state, Reported(work.lease, lane.resource, {}, lane.number))
        return True

    def _passes(self, worker: VirtualWorker, lane: VirtualLane) -> bool:
        """Let a lane save or end where it is; return whether it trains on."""
        work, stage = worker.work, lane.last_stage
        assert work is not None
        stop = self._stop_of(stage)
        if lane.ends(stage, stop):
            at_end = stage.stop is None or lane.resource == stage.max_resource
            saves = stage.node if stage.save else None
            outcome = Outcome.RETURNED if at_end else Outcome.REACHED
            self._after_saving(worker, lane, saves, lambda: self._end(worker, lane, outcome, saves=saves))
            return False
        node = lane.saved_node(stage, stop)
        if node is None:
            return True
        checkpoint = CheckpointRef(node, lane.resource)

        def go_on() -> None:
            self._commit(work, checkpoint, lane.number)
            if waits:
                worker.since_s = self.clock.now
                self._leap(worker, lane)

        waits = bool(self._delays.save_s) and worker.pack is None
        self._after_saving(worker, lane, node, go_on)
        return not waits

    def _after_saving(
        self, worker: VirtualWorker, lane: VirtualLane, node: NodeKey | None, act: Callable[[], None]
    ) -> None:
        """Let a lane go on, or end, once it has saved, if it saves; those of a pack wait before their next round."""
        work, save_s = worker.work, 0.0 if node is None else self._delays.save_s
        assert work is not None
        if worker.pack is not None:
            worker.pack.saving_s += save_s
            save_s = 0.0
        if not save_s:
            act()
            return

        def saved() -> None:
            is_here = self._holder(work.lease) is worker and worker.work is work
            if is_here and worker.lanes.get(lane.number) is lane:  # else it was stopped, or lost, meanwhile
                worker.saved_s += save_s
                lane.is_saving = False
                act()

        lane.is_saving = True
        self.clock.after(save_s, saved)

    def _fail(self, worker: VirtualWorker, lane: VirtualLane) -> None:
        self._end(worker, lane, Outcome.FAILED, error="it failed as the workload says")

    def _end(
        self,
        worker: VirtualWorker,
        lane: VirtualLane,
        outcome: Outcome,
        *,
        saves: NodeKey | None = None,
        error: str = "",
        kind: str = "",
    ) -> None:
        work, spent = worker.work, worker.spent(self.clock.now)
        assert work is not None
        del worker.lanes[lane.number]
        if not worker.lanes:
            self._count_busy(worker)
            worker.work = worker.pack = None
        saved = lane.resource if saves is not None else None
        self._send(TrainingEnded(work.lease, outcome, lane.resource, saved, error, kind, lane=lane.number, spent=spent))
        if saves is not None:
            self._commit(work, CheckpointRef(saves, lane.resource), lane.number)

    def _commit(self, work: Work, checkpoint: CheckpointRef, lane: int) -> None:
        def committed() -> None:
            if self._holder(work.lease) is not None:
                self._send(CheckpointCommitted(work.lease, checkpoint, lane=lane))

        self.clock.after(self._delays.commit_s, committed)

    @abc.abstractmethod
    def _await_verdict(self, worker: VirtualWorker, lane: VirtualLane) -> None:
        """Let a lane wait until the answer to its report has come."""

    @abc.abstractmethod
    def _begin(self, work: Work) -> None:
        """Train the work that came to a worker."""

    @abc.abstractmethod
    def _join(self, action: AddLane) -> None:
        """Let a lane join those that train."""

    @abc.abstractmethod
    def _count_units(self, worker: VirtualWorker) -> None:
        """Count the units that were done since its lane last stopped for something."""

    @abc.abstractmethod
    def _leap(self, worker: VirtualWorker, lane: VirtualLane) -> None:
        """Train on to the next resource at which there is something to report or to do."""
