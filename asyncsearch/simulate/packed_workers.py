"""Virtual workers that train packs: all lanes train a unit, report, and save or end there. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from asyncsearch.actions import AddLane
from asyncsearch.events import Outcome, PackMeasured, Reported, TrainingEnded
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.simulate.packed_training import PackedLane, PackedTraining
from asyncsearch.simulate.virtual_cluster import VirtualCluster, VirtualWorker
from asyncsearch.sizing.pack_groups import grouping_by
from asyncsearch.work import Stage, Work


class PackedWorkers(VirtualCluster):
    """Trains work with several lanes."""

    def _begin_pack(self, worker: VirtualWorker, work: Work) -> None:
        now, pack = self.clock.now, PackedTraining(work, self._workload, self._training, self._group)
        worker.work, worker.pack, worker.began_s = work, pack, now
        worker.slowness = self._draws.slowness(work.lease.number)
        again = max(lane.resource for lane in pack.lanes.values()) if self._restarts else 0
        setup_s = self._delays.setup_s + pack.again_s(again) * worker.slowness
        self._begin_round(worker, work, setup_s)
        self._lose_by_chance(worker, work, list(pack.lanes.values()), setup_s)

    def _lose_by_chance(
        self, worker: VirtualWorker, work: Work, lanes: Sequence[PackedLane], setup_s: float = 0.0
    ) -> None:
        """Lose the work of a pack when chance hits lanes that begin together."""
        assert worker.pack is not None
        lost_after_s = self._draws.lost_after_s(work.lease.number + lanes[0].number)
        if lost_after_s < setup_s + worker.pack.longest_s(lanes) * worker.slowness:
            self.clock.after(lost_after_s, lambda: self._drop(work))

    def _add_lane(self, action: AddLane) -> None:
        """Let a lane join the pack at the end of its round; one whose pack has ended meanwhile begins a pack."""
        worker = self._workers.get(action.lease.worker)
        if worker is None or worker.epoch != action.lease.epoch:
            return
        work = worker.work
        if work is not None and work.lease == action.lease and worker.pack is not None:
            self._lose_by_chance(worker, work, [worker.pack.add(action.lane, action.added)])
            return
        work = Work(action.lease, (), is_open=True)
        worker.work, worker.began_s = work, self.clock.now
        worker.pack = PackedTraining(work, self._workload, self._training, self._group)
        lane = worker.pack.add(action.lane, action.added)
        self._begin_round(worker, work, self._delays.setup_s)
        self._lose_by_chance(worker, work, [lane], self._delays.setup_s)

    def _begin_round(self, worker: VirtualWorker, work: Work, setup_s: float = 0.0) -> None:
        assert worker.pack is not None
        self.clock.after(setup_s + worker.pack.round_s() * worker.slowness, lambda: self._end_round(work))

    def _end_round(self, work: Work) -> None:
        """Let each lane report the unit that it has trained."""
        worker = self._holder(work)
        if worker is None or worker.work is not work or worker.pack is None:
            return
        pack = worker.pack
        if pack.is_too_large:
            self._run_out_of_memory(worker, work, pack)
            return
        findings, pack.findings = pack.findings, ()
        if findings:
            self._send(PackMeasured(work.lease, findings, "simulated"))
        for lane in pack.training:
            if lane.number in pack.lanes:  # a report before may have stopped it
                self._train_unit(worker, work, lane)
            if worker.work is not work:
                return
        self._begin_round(worker, work)

    def _run_out_of_memory(self, worker: VirtualWorker, work: Work, pack: PackedTraining) -> None:
        lanes = pack.training
        words = f"{len(lanes)} trainings need more memory than there is"
        for lane in lanes:
            self._end_lane(worker, work, lane, Outcome.FAILED, error=words, kind="out_of_memory")
        if worker.work is work:  # some wait to join
            self._begin_round(worker, work)

    def _group(self, stage: Stage) -> str:
        return grouping_by(self.state.config.pack_by)(stage.params)

    def _train_unit(self, worker: VirtualWorker, work: Work, lane: PackedLane) -> None:
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
        worker: VirtualWorker,
        work: Work,
        lane: PackedLane,
        outcome: Outcome,
        *,
        saves: NodeKey | None = None,
        error: str = "",
        kind: str = "",
    ) -> None:
        assert worker.pack is not None
        del worker.pack.lanes[lane.number]
        if not worker.pack.lanes:
            self._busy_s += self.clock.now - worker.began_s
            worker.work = worker.pack = None
        saved = lane.resource if saves is not None else None
        self._send(TrainingEnded(work.lease, outcome, lane.resource, saved, error, kind, lane=lane.number))
        if saves is not None:
            self._commit(work, CheckpointRef(saves, lane.resource), lane.number)

    def _packed_lane(self, worker: VirtualWorker | None, number: int) -> PackedLane | None:
        """Return a lane of packed work that has not ended; None: there is none."""
        return None if worker is None or worker.pack is None else worker.pack.lanes.get(number)
