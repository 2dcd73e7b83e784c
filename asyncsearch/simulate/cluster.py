"""Scripted workers on a virtual clock, driving the engine as it is. Pure: a whole search is a function call.

search = Simulation(state, Curves(seed=1), workers=500)
search.run(num_trials=10_000)
search.state.best(), search.clock.now

A lane alone leaps to the next resource at which there is something to report or to do; the lanes of a pack train unit
by unit, each round as long as the pack needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import UNSET, UnsetType

from asyncsearch.actions import AddLane, EndRun
from asyncsearch.events import DriverStarted, Outcome, PackMeasured, RunRequested
from asyncsearch.simulate.timed_cluster import TimedCluster
from asyncsearch.simulate.virtual_cluster import VirtualLane, VirtualPack, VirtualWorker
from asyncsearch.sizing.pack_probe import joiner_wait_s
from asyncsearch.work import Stage, Work


class Simulation(TimedCluster):
    """A cluster of scripted workers and the state that they serve.

    Args:
        state: of a study with a metric that the workload gives.
        workload: cost and value of trials. Where a scheduler says no ``max_resource``, a trial ends after
            ``workload.units(trial)`` units, or after one if the workload has no such function. One for which
            ``workload.fails_after(trial)`` returns (units, seconds) fails each time that it is tried: it reports so
            many units, and fails so many seconds of the next one later; with 0 seconds at once, before it is paused.
        workers: how many slots the cluster has.
        delays: how long things take.
        faults: losses and failures by a script or by chance; ``max_losses`` is a matter of the state.
        training: how the trainable reports and resumes.
        watch: called with (time, event, actions) of every step.
        clock: that other simulations share. One of its own if None.

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
            share: how many of the workers it may have for now, from 0. UNSET means all.
        """
        self.end = self.ended_s = None
        self.tell(DriverStarted("simulated"))
        self.tell(RunRequested(num_trials, self._size, share))

    def _begin(self, work: Work) -> None:
        worker = self._holder(work.lease)
        if worker is None:
            return
        self._take(worker, work)
        for number, given in enumerate(work.lanes):
            worker.lanes[number] = VirtualLane(number, given.stages, given.stages[0].start, judged=given.judged)
        worker.slowness, worker.size = self._draws.slowness(work.lease.number), 1 + len(work.followers)
        if len(work.lanes) > 1 or work.is_open is True:
            self._begin_pack(worker, work)
            return
        [lane], given_load = worker.lanes.values(), work.lanes[0].load
        again_s = lane.resource * self._unit_s(worker, lane.stages[0]) if self._training.restarts else 0.0
        meet_s = self._delays.meet_s if worker.size > 1 else 0.0
        worker.setup_s = self._delays.setup_s + meet_s
        worker.load_s = 0.0 if given_load is None else self._delays.load_s
        worker.since_s = self.clock.now + worker.setup_s + worker.load_s + again_s
        setup_s = worker.since_s - self.clock.now
        self._leap(worker, lane)

        def lasts_s() -> float:
            return setup_s + sum((self._stop_of(one) - one.start) * self._unit_s(worker, one) for one in lane.stages)

        self._lose_by_chance(worker, work, work.lease.number, lasts_s)

    # A lane alone

    def _leap(self, worker: VirtualWorker, lane: VirtualLane) -> None:
        """Train on to the next resource at which there is something to report or to do."""
        work, stage = worker.work, lane.stage
        assert work is not None
        worker.turn += 1
        turn = worker.turn

        def call_at(when: float, reach: Callable[[], None]) -> None:
            def come() -> None:
                if worker.turn == turn and worker.work is work and self._workers.get(work.lease.worker) is worker:
                    reach()

            self.clock.at(when, come)

        if stage.start == stage.stop:
            call_at(worker.since_s, lambda: self._evaluate(worker, lane, stage))
            return
        if stage is not worker.stage:
            worker.stage, worker.unit_s = stage, self._unit_s(worker, stage)
            worker.failure = self._workload.failure(stage.trials[0])
        failure = worker.failure
        if failure is not None and lane.resource >= failure.units:
            worker.goal = lane.resource + 1  # which it does not reach
            call_at(worker.since_s + failure.seconds * worker.slowness, lambda: self._fail(worker, lane))
            return
        worker.goal = lane.resource + 1 if self._report_every == 1 else self._next_goal(worker, lane, stage)
        ends_s = worker.since_s + (worker.goal - lane.resource) * worker.unit_s

        def reach() -> None:
            lane.resource, worker.since_s = worker.goal, ends_s
            if self._goes_on(worker, lane, stage, worker.failure):
                self._leap(worker, lane)

        call_at(ends_s, reach)

    def _await_verdict(self, worker: VirtualWorker, lane: VirtualLane) -> None:
        work = worker.work
        assert work is not None
        if worker.pack is not None:
            worker.pack.judged.append(lane)
            return

        def answered() -> None:
            if self._answered(work, lane) and self._passes(worker, lane):
                worker.since_s = self.clock.now
                self._leap(worker, lane)

        self._after_answer(answered)

    def _after_answer(self, call: Callable[[], None]) -> None:
        """Call once the answer to a report that was sent now has come, and what was sent before it."""
        delay_s = self._delays.message_s
        # In two steps, as the messages take them: rounded otherwise, the answer could come before them.
        self.clock.after(delay_s, lambda: self.clock.after(delay_s, call))

    def _evaluate(self, worker: VirtualWorker, lane: VirtualLane, stage: Stage) -> None:
        """Report the value of the loaded checkpoint, which takes no time."""
        work = worker.work
        assert work is not None
        self._report(work, lane, stage)
        if worker.work is work:
            self._end(worker, lane, Outcome.RETURNED if stage.stop == stage.max_resource else Outcome.REACHED)

    def _next_goal(self, worker: VirtualWorker, lane: VirtualLane, stage: Stage) -> int:
        """Return the resource, beyond the present one, at which there is next something to report or to do."""
        here, every, trial = lane.resource, self._report_every, stage.trials[0]
        goals = [self._stop_of(stage), *lane.saves]
        if every is not None:
            goals.append(here - here % every + every)
        if stage.save_every is not None:
            goals.append(here - here % stage.save_every + stage.save_every)
        if lane.stop is not None:
            goals.append(max(lane.stop, here + 1))
        if trial in self._failures:
            goals.append(self._failures[trial])
        if worker.failure is not None:
            goals.append(worker.failure.units)
        return min(goal for goal in goals if goal > here)

    def _count_units(self, worker: VirtualWorker) -> None:
        """Count the units that a lane alone has done since it last stopped for something."""
        if worker.pack is not None:
            return
        [lane] = worker.lanes.values()
        done = int((self.clock.now - worker.since_s) / worker.unit_s + 1e-9)
        done = min(done, worker.goal - lane.resource - 1)
        if done > 0:
            lane.resource += done
            worker.since_s += done * worker.unit_s

    # Packs

    def _begin_pack(self, worker: VirtualWorker, work: Work) -> None:
        worker.pack = self._times(worker, work)
        lanes = list(worker.lanes.values())
        again = max(lane.resource for lane in lanes) if self._training.restarts else 0
        worker.setup_s = self._delays.setup_s
        worker.load_s = self._delays.load_s * sum(given.load is not None for given in work.lanes)
        setup_s = worker.setup_s + worker.load_s + worker.pack.again_s(again) * worker.slowness
        self._begin_first(worker, setup_s)
        self._lose_pack_by_chance(worker, lanes, setup_s)

    def _times(self, worker: VirtualWorker, work: Work) -> VirtualPack:
        return VirtualPack(worker.lanes, work, self._workload, self._training, lambda stage: self._group(stage.params))

    def _join(self, action: AddLane) -> None:
        """Let a lane join the pack at the end of its round; one whose pack has ended meanwhile begins a pack."""
        worker = self._holder(action.lease)
        if worker is None:
            return
        stages = action.added.stages
        lane = VirtualLane(action.lane, stages, stages[0].start, judged=action.added.judged, is_joining=True)
        if worker.work is not None and worker.work.lease == action.lease and worker.pack is not None:
            worker.lanes[lane.number] = lane
            self._lose_pack_by_chance(worker, [lane])
            return
        work = Work(action.lease, (), is_open=True)
        self._take(worker, work)
        worker.lanes[lane.number], worker.pack = lane, self._times(worker, work)
        worker.setup_s = self._delays.setup_s
        worker.load_s = self._delays.load_s if action.added.load is not None else 0.0
        setup_s = worker.setup_s + worker.load_s
        self._begin_first(worker, setup_s)
        self._lose_pack_by_chance(worker, [lane], setup_s)

    def _lose_pack_by_chance(self, worker: VirtualWorker, lanes: Sequence[VirtualLane], setup_s: float = 0.0) -> None:
        """Lose the work of a pack when chance hits lanes that begin together."""
        assert worker.work is not None
        stages = [stage for lane in lanes for stage in lane.stages]

        def lasts_s() -> float:
            units_s = ((self._stop_of(stage) - stage.start) * self._workload.seconds(stage) for stage in stages)
            return setup_s + sum(units_s) * worker.slowness

        self._lose_by_chance(worker, worker.work, worker.work.lease.number + lanes[0].number, lasts_s)

    def _begin_first(self, worker: VirtualWorker, setup_s: float) -> None:
        """Begin the first round once all is set up, with the lanes that have joined meanwhile."""
        work = worker.work

        def begin() -> None:
            if work is not None and self._workers.get(work.lease.worker) is worker and worker.work is work:
                self._begin_round(worker)

        self.clock.after(setup_s, begin)

    def _begin_round(self, worker: VirtualWorker) -> None:
        work, pack = worker.work, worker.pack
        assert work is not None
        assert pack is not None

        def end() -> None:
            if self._workers.get(work.lease.worker) is worker and worker.work is work:
                self._end_round(worker, work, pack)

        save_s, pack.saving_s = pack.saving_s, 0.0
        worker.saved_s += save_s
        self.clock.after(save_s + pack.round_s() * worker.slowness, end)

    def _end_round(self, worker: VirtualWorker, work: Work, pack: VirtualPack) -> None:
        """Let each lane report the unit that it has trained."""
        if pack.is_too_large:
            lanes = pack.training
            for lane in lanes:
                words = f"{len(lanes)} trainings need more memory than there is"
                self._end(worker, lane, Outcome.FAILED, error=words, kind="out_of_memory")
        else:
            findings, pack.findings = pack.findings, ()
            if findings:
                self._send(PackMeasured(work.lease, findings, "simulated"))
            for lane in pack.training:
                if worker.lanes.get(lane.number) is lane:  # a report before may have stopped it
                    self._train_unit(worker, lane)
                if worker.work is not work:
                    return
        if pack.judged:
            judged, pack.judged = pack.judged, []
            self._after_answer(lambda: self._end_judged_round(worker, work, judged))
        elif worker.work is work:  # lanes are left, or some wait to join
            self._begin_next_round(worker, work, pack)

    def _end_judged_round(self, worker: VirtualWorker, work: Work, judged: Sequence[VirtualLane]) -> None:
        """Let the lanes of a pack go on or end that waited for what is decided of them."""
        for lane in judged:
            if self._answered(work, lane):
                self._passes(worker, lane)
        if worker.pack is not None:
            worker.waited_s += 2 * self._delays.message_s
        if worker.work is work and worker.pack is not None:
            self._begin_next_round(worker, work, worker.pack)

    def _begin_next_round(self, worker: VirtualWorker, work: Work, pack: VirtualPack) -> None:
        """Begin the next round; joiners in place of lanes that have left are waited for, if they can come in time."""
        exchange_s = 2 * self._delays.message_s

        def begin() -> None:
            if self._workers.get(work.lease.worker) is worker and worker.work is work:
                worker.waited_s += exchange_s
                self._begin_round(worker)

        if pack.training and pack.has_lost_some and exchange_s <= joiner_wait_s(pack.lasted_s * worker.slowness):
            self._after_answer(begin)
        else:
            self._begin_round(worker)

    def _train_unit(self, worker: VirtualWorker, lane: VirtualLane) -> None:
        stage, every = lane.stage, self._report_every
        failure = self._workload.failure(stage.trials[0])
        if failure is not None and lane.resource >= failure.units:
            self._fail(worker, lane)
            return
        lane.resource += 1
        stop = self._stop_of(stage)
        is_due = every is not None and lane.resource % every == 0
        reports = is_due or lane.ends(stage, stop) or lane.saved_node(stage, stop) is not None
        self._goes_on(worker, lane, stage, failure, reports=reports)
