"""Packs: one lease with several lanes, each an attempt of its own."""

from __future__ import annotations

import pytest

from asyncsearch.actions import AddLane, Assign, StopTraining
from asyncsearch.engine import snapshot
from asyncsearch.engine.state import StudyState
from asyncsearch.events import (
    KILLED,
    Outcome,
    Reported,
    StopRequested,
    TrainingEnded,
    TrialTimedOut,
    WorkerLost,
    WorkRefused,
)
from asyncsearch.ids import Lease, TrialId, WorkerId
from asyncsearch.schedulers import ASHA, FIFO, SHA, Hyperband, MedianStopping
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.simulate import Chance, Curves, Delays, Faults, Loss, TrainingModel, simulate
from asyncsearch.space import Space, choice, uniform
from asyncsearch.testing.recording import restored
from asyncsearch.trial import TrialState
from tests.engine.player import Player, only
from tests.engine.tools import PACKED_SCHEDULERS, W0, PackPlayer, packed_state, record, replayed, results


def test_a_free_worker_gets_as_many_trials_as_the_limit_under_one_lease() -> None:
    player = PackPlayer(trials=6)
    assert player.works() == [4]
    assert player.states() == [TrialState.RUNNING] * 4
    assert len(player.state.attempts_under(player.lease)) == 4


def test_a_worker_never_waits_for_others_to_fill_a_pack() -> None:
    assert PackPlayer(trials=2).works() == [2]
    assert PackPlayer(trials=1).works() == [1]


def test_free_workers_share_what_is_left() -> None:
    player = Player(packed_state(FIFO(max_resource=3), pack=8))
    player.begin(6, 2)
    assert [len(player.state.attempts_of(WorkerId(number))) for number in range(2)] == [3, 3]


def test_the_worker_is_free_when_its_last_lane_has_ended() -> None:
    player = PackPlayer(trials=4)
    for lane in range(3):
        player.finish(lane)
        assert player.state.pool.first_idle() is None
    player.finish(3)
    assert player.states() == [TrialState.COMPLETED] * 4
    assert player.state.run is None


def test_the_next_lease_has_the_number_after_those_of_the_lanes() -> None:
    player = PackPlayer(trials=5, joins=False)
    for lane in range(4):
        player.lane(lane, 2)
    for lane in range(4):
        player.finish(lane)
    (assign,) = only(player.last, Assign)
    assert assign.work.lease.number == 4


def test_a_message_of_a_lane_that_has_ended_changes_nothing() -> None:
    player = PackPlayer()
    player.finish(1)
    before = snapshot.encode(player.state, 0)
    for event in (
        Reported(player.lease, 9, {"loss": 0.0}, 1),
        TrainingEnded(player.lease, Outcome.FAILED, 3, lane=1),
        Reported(player.lease, 1, {"loss": 0.0}, 7),
    ):
        assert player.tell(event) == []
    assert snapshot.encode(player.state, 0) == before


def test_a_failure_of_one_lane_is_charged_to_its_trial_alone() -> None:
    player = PackPlayer()
    player.end(1, Outcome.FAILED, 0, "ValueError")
    assert player.states() == [TrialState.RUNNING, TrialState.FAILED, TrialState.RUNNING]
    assert [trial.failures for trial in player.state.trials] == [0, 1, 0]


def test_the_loss_of_a_worker_costs_each_lane_its_attempt_once() -> None:
    player = PackPlayer()
    player.finish(1)
    player.tell(WorkerLost(W0, 1, "gone"))
    assert player.losses() == [1, 0, 1]
    assert player.state.attempts == {}


def test_the_death_of_a_shared_process_costs_each_lane_its_attempt_once() -> None:
    player = PackPlayer()
    for lane in range(3):
        player.end(lane, Outcome.FAILED, 0, KILLED)
    assert player.losses() == [1, 1, 1]
    assert player.works() == [3]


def test_trials_that_lost_attempts_repeatedly_train_alone() -> None:
    player = PackPlayer()
    for start in (0, 3):
        player.lease = Lease(start, W0, 1)
        for lane in range(3):
            player.end(lane, Outcome.FAILED, 0, KILLED)
    assert player.losses() == [2, 2, 2]
    assert player.works() == [1]


def test_too_little_memory_halves_packs_and_is_nobody_s_failure() -> None:
    player = PackPlayer(trials=4)
    for lane in range(4):
        player.end(lane, Outcome.FAILED, 0, "out_of_memory")
    assert player.works() == [2]
    assert [trial.failures for trial in player.state.trials] == [0] * 4
    assert player.losses() == [0] * 4
    assert "too little memory together; 2 are tried next" in player.state.trials[3].reason


def test_too_little_memory_of_one_training_alone_is_its_failure() -> None:
    player = PackPlayer(trials=1)
    player.end(0, Outcome.FAILED, 0, "out_of_memory")
    assert player.states() == [TrialState.FAILED]


def test_a_time_limit_concerns_each_lane_that_still_trains() -> None:
    player = PackPlayer()
    player.finish(0)
    player.tell(TrialTimedOut(player.lease))
    assert player.states()[1:] == [TrialState.WAITING] * 2
    assert [trial.failures for trial in player.state.trials] == [0, 0, 0]
    assert player.losses() == [0, 1, 1]
    assert [action.lane for action in only(player.last, StopTraining)] == [1, 2]


def test_refused_work_returns_the_trials_of_all_lanes() -> None:
    player = PackPlayer()
    player.tell(WorkRefused(player.lease, "others train it"))
    assert player.losses() == [0, 0, 0]
    assert player.works() == [3]


def test_a_stop_of_the_run_is_sent_to_each_lane() -> None:
    player = PackPlayer()
    player.tell(StopRequested("Ctrl-C"))
    assert [(action.lease, action.lane) for action in only(player.last, StopTraining)] == [
        (player.lease, lane) for lane in range(3)
    ]


def test_a_stop_of_one_lane_leaves_the_others_running() -> None:
    player = Player(packed_state(MedianStopping(max_resource=9, min_trials=2), pack=4))
    player.begin(4, 1)
    lease = Lease(0, W0, 1)
    stopped: list[StopTraining] = []
    for resource in range(1, 5):
        for lane in range(4):
            stopped += only(player.tell(Reported(lease, resource, {"loss": float(lane)}, lane)), StopTraining)
    assert {action.lane for action in stopped} == {3} or {action.lane for action in stopped} == {2, 3}
    running = [trial.id for trial in player.state.trials if trial.state is TrialState.RUNNING]
    assert set(range(4)) - {action.lane for action in stopped} == set(running)


def test_trials_of_different_groups_train_apart() -> None:
    space = Space.of({"x": uniform(0.0, 1.0), "width": choice([8, 16])})
    player = Player(packed_state(FIFO(max_resource=3), pack=8, space=space))
    player.begin(12, 1)
    (assign,) = only(player.last, Assign)
    assert len({lane.stages[0].params["width"] for lane in assign.work.lanes}) == 1
    assert len(assign.work.lanes) > 1


def test_a_searcher_may_bound_a_pack() -> None:
    player = Player(packed_state(FIFO(max_resource=3), pack=8))
    player.state.searcher.max_batch = 2
    player.begin(12, 1)
    (assign,) = only(player.last, Assign)
    assert len(assign.work.lanes) == 2


@pytest.mark.parametrize("scheduler", PACKED_SCHEDULERS)
@pytest.mark.parametrize("faults", [Faults(), Faults(losses=[Loss(W0, 7.0, 2.0)], failures={TrialId(2): 1})])
def test_every_scheduler_accounts_for_each_trial_and_replays_to_the_byte(scheduler: Scheduler, faults: Faults) -> None:
    def fresh() -> StudyState:
        return packed_state(scheduler, max_failures=1)

    recorded = record(fresh(), 12, 2, faults=faults, delays=Delays(commit_s=0.2))
    assert len(recorded.state.trials) == 12
    assert not [t for t in recorded.state.trials if t.state in (TrialState.WAITING, TrialState.RUNNING)]
    decided = [action for _, _, actions in recorded.steps for action in actions]
    assert only(decided, AddLane) or max(len(action.work.lanes) for action in only(decided, Assign)) > 1
    for cut in range(0, len(recorded.states), 7):
        state = replayed(fresh(), recorded.lines[: cut + 2])
        assert snapshot.encode(state, cut + 1) == recorded.states[cut]
        assert results(restored(state, fresh())) == results(state)


@pytest.mark.parametrize("scheduler", [SHA(max_resource=9), Hyperband(max_resource=9, variant="synchronous")])
def test_synchronous_halving_finds_the_same_promotions_as_without_packs(scheduler: Scheduler) -> None:
    found = [results(record(packed_state(scheduler, pack=pack), 9, 2).state) for pack in (None, 1, 4)]
    assert found[0] == found[1] == found[2]


def test_a_limit_of_one_decides_as_without_packs() -> None:
    runs = [record(packed_state(ASHA(max_resource=9), pack=pack), 12, 3) for pack in (None, 1)]
    assert runs[0].lines == runs[1].lines


def test_packs_train_as_much_faster_as_the_curve_says() -> None:
    def wall_s(pack: int | None, curve: dict[int, float]) -> float:
        found = simulate(
            Curves(seed=1),
            scheduler=FIFO(max_resource=4),
            num_trials=32,
            pack=pack,
            training=TrainingModel(pack_speedup=curve),
        )
        assert found.is_complete
        return found.wall_s

    alone = wall_s(None, {})
    assert wall_s(8, {}) == pytest.approx(alone)
    assert wall_s(8, {8: 4.0}) == pytest.approx(alone / 4)
    assert wall_s(4, {7: 7.0}) == pytest.approx(alone / 4)
    assert wall_s(8, {4: 2.0}) == pytest.approx(alone / 2)


def test_packs_whose_work_is_lost_by_chance_are_trained_again() -> None:
    faults = Faults(chance=Chance(drop=0.1, seed=1), max_losses=100)
    found = simulate(Curves(seed=1), scheduler=ASHA(max_resource=9), num_trials=20, workers=2, pack=4, faults=faults)
    assert found.is_complete
    assert sum(trial.losses for trial in found.trials) > 0
