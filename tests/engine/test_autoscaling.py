"""Whole searches whose trials get more workers where some are free, on a virtual clock and in random orders."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from asyncsearch.actions import AnyAction, Assign, CutWork, MoveTrial
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.sizing.gangs import note_unit, note_volume
from asyncsearch.engine.state import StudyState
from asyncsearch.events import CheckpointCommitted, Outcome, Reported, TrainingEnded
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, TrialId, WorkerId
from asyncsearch.journal.format import SegmentReader
from asyncsearch.plan.base_plan import Batch, PlannedStage
from asyncsearch.report.what_if.recorded_units import recorded_units
from asyncsearch.schedulers import ASHA, FIFO, PBT, SHA, Hyperband
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.searchers.random import RandomSearch
from asyncsearch.simulate import Delays, Faults, Loss, SimulationResult, TrainingModel, simulate
from asyncsearch.simulate.workloads import Curves
from asyncsearch.sizing.autoscale import Autoscale, KnownSpeed, KnownSpeeds, Volume
from asyncsearch.sizing.gangs import Gang
from asyncsearch.sizing.pack_probe import speedup_at
from asyncsearch.sizing.packing import group_of
from asyncsearch.trial import TrialState
from tests.engine.player import Player
from tests.engine.test_random_events import SHARED, TWINS
from tests.engine.test_random_gangs import GangWorld
from tests.engine.tools import Recorded, live_through, make_state, record, replayed
from tests.examples import examples

CURVE = {1: 1.0, 2: 1.9, 4: 3.4, 8: 5.0}
DELAYS = Delays(start_s=2.0, setup_s=0.5, meet_s=0.5, commit_s=0.2, message_s=0.01)
SCHEDULERS = [
    pytest.param(FIFO(max_resource=9), id="fifo"),
    pytest.param(ASHA(max_resource=27), id="asha"),
    pytest.param(ASHA(max_resource=27, variant="stopping"), id="asha-stopping"),
    pytest.param(SHA(max_resource=27), id="sha"),
    pytest.param(Hyperband(max_resource=27), id="hyperband"),
    pytest.param(PBT(max_resource=9, perturbation_interval=3), id="pbt"),
]


def search(
    scheduler: Scheduler,
    scale: Autoscale | None,
    workers: int = 8,
    trials: int = 43,
    *,
    unit_s: float = 10.0,
    delays: Delays = DELAYS,
) -> SimulationResult:
    return simulate(
        Curves(seed=1, unit_s=unit_s),
        scheduler=scheduler,
        workers=workers,
        num_trials=trials,
        delays=delays,
        training=TrainingModel(gang_speedup=CURVE),
        autoscale=scale,
    )


def scaled(scheduler: Scheduler, scale: Autoscale, size: int = 1) -> StudyState:
    state = make_state(scheduler, can_save=True)
    state.gang = Gang(size, autoscale=scale)
    return state


@pytest.mark.parametrize("scheduler", SCHEDULERS[:-1])
def test_a_search_is_shorter_and_its_worker_seconds_keep_the_efficiency(scheduler: Scheduler) -> None:
    alone, together = search(scheduler, None), search(scheduler, Autoscale(0.75))
    assert together.is_complete
    assert together.wall_s < alone.wall_s
    assert together.busy_s <= alone.busy_s / 0.75
    assert max(one.workers for one in together.sizes) > 1
    assert alone.sizes == ()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_short_units_and_slow_starts_make_no_autoscaled_search_longer(scheduler: Scheduler) -> None:
    slow = msgspec.structs.replace(DELAYS, start_s=20.0, setup_s=10.0)
    for unit_s in (0.5, 1.0, 3.0):
        alone, together = (search(scheduler, scale, unit_s=unit_s, delays=slow) for scale in (None, Autoscale(0.75)))
        assert together.wall_s <= alone.wall_s
        assert together.busy_s <= alone.busy_s / 0.75


@pytest.mark.parametrize("scheduler", [SHA(max_resource=27), Hyperband(max_resource=27)], ids=["sha", "hyperband"])
def test_synchronous_schedulers_promote_the_same_trials_with_autoscaling(scheduler: Scheduler) -> None:
    alone, together = search(scheduler, None), search(scheduler, Autoscale(0.5))
    assert [(t.id, t.resource, t.value) for t in alone.trials] == [(t.id, t.resource, t.value) for t in together.trials]
    assert alone.trained == together.trained, "no unit is trained twice for a change of size"


def assigned(recorded: Recorded) -> list[Assign]:
    return [action for _, _, actions in recorded.steps for action in actions if isinstance(action, Assign)]


def cuts(recorded: Recorded) -> list[CutWork]:
    return [action for _, _, actions in recorded.steps for action in actions if isinstance(action, CutWork)]


def played(state: StudyState, trials: int, workers: int) -> Recorded:
    return record(
        state,
        trials,
        workers,
        workload=Curves(seed=1, unit_s=10.0),
        delays=DELAYS,
        training=TrainingModel(gang_speedup=CURVE),
    )


def test_a_simulation_says_which_trials_got_more_workers_when_and_why() -> None:
    result = search(ASHA(max_resource=27), Autoscale(0.75))
    assert all(0 < one.at_s < result.wall_s for one in result.sizes)
    assert all(one.reason.startswith(f"{one.workers} workers: ") for one in result.sizes)
    assert [one.at_s for one in result.sizes] == sorted(one.at_s for one in result.sizes)
    assert {one.trial for one in result.sizes} <= {one.trial for one in result.arrivals if one.resource > 1}


def test_trials_that_wait_get_workers_before_any_gets_more() -> None:
    recorded = played(scaled(FIFO(max_resource=9), Autoscale(0.1)), 35, 8)
    sizes = [1 + len(action.work.followers) for action in assigned(recorded)]
    assert set(sizes[:35]) == {1}, "while a new trial may begin, each trial has one worker"
    assert max(sizes[35:]) > 1, "the last trials get what is free"


def test_each_larger_gang_has_a_reason_and_so_has_each_pause_for_a_change() -> None:
    recorded = played(scaled(ASHA(max_resource=27), Autoscale(0.6)), 40, 8)
    larger = [action.work for action in assigned(recorded) if action.work.followers]
    assert larger
    for work in larger:
        assert isinstance(work.sized, str)
        assert work.sized.startswith(f"{1 + len(work.followers)} workers: ")
    reasons = Counter(cut.resize for cut in cuts(recorded) if isinstance(cut.resize, str))
    assert any(reason.startswith("it goes on with ") for reason in reasons)


def test_no_trial_gets_more_than_the_largest_size_or_what_is_efficient() -> None:
    for scale, most in ((Autoscale(0.1, max_size=3), 3), (Autoscale(0.8), 4), (Autoscale(0.96), 1)):
        recorded = played(scaled(FIFO(max_resource=30), scale), 2, 8)
        # A size that was never measured is tried once.
        sizes = Counter(1 + len(action.work.followers) for action in assigned(recorded))
        assert max(size for size in sizes if sizes[size] > 2 or size <= most) <= most


def test_several_trainings_share_the_idle_workers_in_one_decision() -> None:
    recorded = played(scaled(FIFO(max_resource=30), Autoscale(0.1, max_size=4)), 2, 8)
    changed = [
        [action for action in actions if isinstance(action, CutWork) and isinstance(action.resize, str)]
        for _, _, actions in recorded.steps
    ]
    assert max(map(len, changed)) == 2


def known_speed() -> KnownSpeed:
    """Return what is known of workers that train eight times as fast as one if they are eight."""
    return KnownSpeed({1: [10.0], 8: [1.25]}, {size: [0.1] for size in range(1, 9)}, ratios={8: [0.125]})


def test_promotions_of_one_rung_share_the_idle_workers() -> None:
    state = scaled(Hyperband(max_resource=9, brackets=1, variant="synchronous"), Autoscale(0.5))
    state.speeds[group_of({"x": 0.5})] = KnownSpeeds({"": known_speed()})
    recorded = played(state, 9, 8)
    stages = [(action.work.lanes[0].stages[0].start, 1 + len(action.work.followers)) for action in assigned(recorded)]
    # The third one goes on where it is, on one worker, and then on the two that are left.
    assert sorted(size for start, size in stages if start == 1)[-2:] == [2, 3]
    assert max(size for _, size in stages) == 8


def test_a_unit_costs_what_it_would_on_as_many_workers_as_others_have() -> None:
    state = scaled(FIFO(max_resource=9), Autoscale(0.5))
    state.speeds[group_of({"x": 0.5})] = KnownSpeeds({"": known_speed()})
    played(state, 1, 1)
    attempt = Attempt(Lease(99, WorkerId(0), 1), Batch(None, (PlannedStage(NodeKey("n"), 0, 9, (TrialId(0),)),)), [])
    attempt.size = 8
    assert note_unit(state, attempt, 1.25) == pytest.approx(10.0)


def test_each_kind_of_device_has_measures_of_its_own() -> None:
    state = scaled(FIFO(max_resource=9), Autoscale(0.5))
    played(state, 1, 1)
    batch = Batch(None, (PlannedStage(NodeKey("n"), 0, 9, (TrialId(0),)),))
    fast, slow = (Attempt(Lease(number, WorkerId(0), 1), batch, []) for number in (98, 99))
    for attempt, device, seconds in ((slow, "slow", 8.0), (fast, "fast", 1.0), (slow, "slow", 8.0)):
        note_volume(state, attempt, Volume(1, 8, device))
        note_unit(state, attempt, seconds)
    measured = {device: speed.measured for device, speed in state.speeds[group_of({"x": 0.5})].on.items() if device}
    assert measured == {"slow": {1: 8.0}, "fast": {1: 1.0}}


def test_what_cannot_be_saved_after_any_unit_never_pauses_for_workers() -> None:
    state = make_state(FIFO(max_resource=30))
    state.gang = Gang(1, autoscale=Autoscale(0.1))
    assert cuts(played(state, 2, 8)) == []


def test_a_trial_that_pauses_for_workers_says_so() -> None:
    recorded = played(scaled(FIFO(max_resource=30), Autoscale(0.1)), 2, 8)
    moves = [action for _, _, actions in recorded.steps for action in actions if isinstance(action, MoveTrial)]
    assert any(move.reason.startswith("it goes on with 2 workers: ") for move in moves)


def test_a_large_gang_gives_workers_to_trials_that_wait() -> None:
    recorded = played(scaled(Hyperband(max_resource=27), Autoscale(0.2)), 27, 16)
    reasons = [cut.resize for cut in cuts(recorded) if isinstance(cut.resize, str)]
    assert "it gives workers to trials that wait for one" in reasons


def test_a_study_goes_on_with_the_sizes_that_its_journal_has() -> None:
    recorded = played(scaled(ASHA(max_resource=27), Autoscale(0.6)), 20, 8)
    again = replayed(scaled(ASHA(max_resource=27), Autoscale(0.6)), recorded.lines)
    assert again.speeds == recorded.state.speeds
    assert again.speeds


def test_lost_workers_of_large_gangs_cost_no_trial() -> None:
    losses = [Loss(WorkerId(worker), at_s, 2.0) for worker in range(8) for at_s in (60.0 + 7 * worker, 200.0)]
    found = simulate(
        Curves(seed=1, unit_s=10.0),
        scheduler=SHA(max_resource=27),
        workers=8,
        num_trials=27,
        delays=DELAYS,
        faults=Faults(losses=losses),
        training=TrainingModel(gang_speedup=CURVE),
        autoscale=Autoscale(0.5),
    )
    quiet = search(SHA(max_resource=27), Autoscale(0.5), trials=27)
    assert [(t.id, t.state, t.value) for t in found.trials] == [(t.id, t.state, t.value) for t in quiet.trials]


def test_the_journal_tells_unit_time_on_one_worker_and_the_gain_of_more() -> None:
    recorded = played(scaled(ASHA(max_resource=27), Autoscale(0.3)), 40, 8)
    units = recorded_units(list(SegmentReader().read("000001.jsonl", recorded.lines)))
    assert len(units.gang_speedup) > 2
    for size, speedup in units.gang_speedup.items():
        assert speedup == pytest.approx(speedup_at(CURVE, size), rel=0.05)
    trained = [units.unit_s[trial.id] for trial in recorded.state.trials if trial.resource == 27]
    assert trained == pytest.approx([10.0] * len(trained), rel=0.1), "as on one worker, whatever they had"


def test_a_gang_that_has_lost_a_worker_reports_no_more() -> None:
    state = make_state(FIFO(max_resource=20))
    state.gang = Gang(2)
    faults, delays = Faults(losses=[Loss(WorkerId(1), 37.0)]), Delays(detect_s=30.0)
    recorded = record(state, 1, 2, workload=Curves(seed=1, unit_s=10.0), faults=faults, delays=delays)
    times = [now for now, event, _ in recorded.steps if isinstance(event, Reported)]
    assert max(now for now in times if now < 67.0) == 35.0, "two workers train a unit in 5 s, until one is lost"


class ScaledWorld(GangWorld):
    """Agents of which any number may train one lease."""

    def require_size(self, size: int) -> None:
        gang = self.state.gang
        assert gang is not None
        assert gang.autoscale is not None
        assert gang.size <= size <= (gang.autoscale.max_size or size)
        assert size % gang.size == 0

    def decided(self, actions: Sequence[AnyAction]) -> None:
        super().decided(actions)
        gang = self.state.gang
        assert gang is not None
        for action in actions:
            if isinstance(action, Assign):
                is_larger = 1 + len(action.work.followers) > gang.size
                assert is_larger == isinstance(action.work.sized, str)
                self.require_nothing_waits(is_larger=is_larger)
            if isinstance(action, CutWork) and isinstance(action.resize, str):
                attempt = self.state.attempts[action.lease.number]
                assert attempt.resource < action.stop < attempt.batch.stages[-1].stop, "it would gain nothing"
                assert attempt.size > gang.size or action.resize.startswith("it goes on with ")
        self.require_one_change_at_a_time(actions)

    def require_nothing_waits(self, *, is_larger: bool) -> None:
        """Require that workers made a gang larger only where no other work could use them, now or in a moment."""
        state = self.state
        assert state.gang is not None
        has_worker = state.pool.count_idle() >= state.gang.size  # for a promotion whose checkpoint is being stored
        waits = bool(state.plan.ready_batches(1)) or (state.scheduler.next_promotion() is not None and not has_worker)
        assert not (is_larger and waits), "a gang has the workers of trials that wait"

    def require_one_change_at_a_time(self, actions: Sequence[AnyAction]) -> None:
        """Require that no training is to pause for workers on which an earlier one counts."""
        new = {action.lease for action in actions if isinstance(action, CutWork) and isinstance(action.resize, str)}
        earlier = {attempt.lease for attempt in self.state.attempts.values() if attempt.resize} - new
        assert not (new and earlier)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
@settings(max_examples=examples(15), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 250), save_every=st.sampled_from([None, 2]))
@example(seed=280972560, steps=171, save_every=None)  # pbt: a promotion waits for a checkpoint, its worker is idle
def test_whatever_happens_gangs_change_their_sizes_and_the_run_ends(
    scheduler: Scheduler, size: int, seed: int, steps: int, save_every: int | None
) -> None:
    scale = [Autoscale(0.01), Autoscale(0.5, max_size=3 * size), Autoscale(1.0)][seed % 3]

    def make() -> StudyState:
        state = make_state(scheduler, max_failures=seed % 3, save_every=save_every, can_save=True)
        state.gang = Gang(size, autoscale=scale)
        return state

    world = ScaledWorld(make, random.Random(seed), is_fickle=True)
    live_through(world, steps)
    assert all(trial.state is not TrialState.RUNNING for trial in world.state.trials)


@settings(max_examples=examples(15), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 250))
def test_whatever_happens_gangs_of_any_size_train_shared_stages_once(seed: int, steps: int) -> None:
    def make() -> StudyState:
        state = make_state(ASHA(max_resource=9), GridSearch(), SHARED, can_save=True)
        state.gang = Gang(1, autoscale=Autoscale(0.01))
        return state

    live_through(ScaledWorld(make, random.Random(seed)), steps)


class Dearer:
    """The worse a trial, the cheaper its units: the trials of the last rungs cost most."""

    def value(self, trial: TrialId, params: Any, resource: int) -> float:
        return 1.0 / (1 + trial % 9)

    def seconds(self, trial: TrialId, params: Any) -> float:
        return 10.0 * (1 + trial % 9)


@pytest.mark.parametrize("true_efficiency", [0.5, 0.75, 0.9])
@pytest.mark.parametrize("scheduler", [SHA(max_resource=27), ASHA(max_resource=27)], ids=["sha", "asha"])
def test_the_efficiency_of_trials_that_cost_more_is_taken_as_it_is(
    scheduler: Scheduler, true_efficiency: float
) -> None:
    curve = {1: 1.0, 2: 2 * true_efficiency, 4: 4 * true_efficiency}
    state = scaled(scheduler, Autoscale(0.45, max_size=4))
    training = TrainingModel(gang_speedup=curve)
    recorded = record(state, 27, 4, workload=Dearer(), delays=DELAYS, training=training)
    known = state.speeds[group_of({"x": 0.5})].on[""]
    assert known.ratios, "no trial had more workers"
    for size in known.ratios:
        assert known.ratio(1, size) == pytest.approx(1 / speedup_at(curve, size), rel=2e-3), "workers tell milliseconds"
    units = recorded_units(list(SegmentReader().read("000001.jsonl", recorded.lines)))
    for size, speedup in units.gang_speedup.items():
        assert speedup == pytest.approx(speedup_at(curve, size), rel=0.02)
    assert not state.own_units or all(not state.trials[number].state.is_finished for number in state.own_units)


@pytest.mark.parametrize("scheduler", [SHA(max_resource=9), ASHA(max_resource=9), Hyperband(max_resource=9)])
@pytest.mark.parametrize("trials", [6, 12, 19])
def test_who_is_asked_for_while_a_gang_is_sized_may_divide_its_stages(scheduler: Scheduler, trials: int) -> None:
    state = make_state(scheduler, RandomSearch(), TWINS)
    state.gang = Gang(1, autoscale=Autoscale())
    player = Player(state)
    player.begin(trials, 4)
    for _ in range(200):
        attempt = next((one for one in state.attempts.values() if one.is_training), None)
        if attempt is not None:
            for unit in range(attempt.resource + 1, attempt.stop + 1):
                player.now += 1e5  # units so long that more workers are worth their start
                player.tell(Reported(attempt.lease, unit, {"loss": 1 / unit}))
            node, stop = attempt.node_at(attempt.stop), attempt.stop
            outcome = Outcome.RETURNED if stop == state.max_resource else Outcome.REACHED
            player.tell(TrainingEnded(attempt.lease, outcome, stop, stop))
            player.tell(CheckpointCommitted(attempt.lease, CheckpointRef(node, stop)))
    assert state.run is None
