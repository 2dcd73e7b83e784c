"""Trainings join packs that train already: when, which, and what becomes of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asyncsearch.actions import AddLane, Assign, CreateTrial, Promote, StopRun, StopTraining
from asyncsearch.engine import snapshot
from asyncsearch.engine.state import StudyState
from asyncsearch.events import (
    KILLED,
    CheckpointCommitted,
    DriverStarted,
    Outcome,
    PackMeasured,
    PackSeconds,
    Reported,
    RunRequested,
    StopRequested,
    TrainingEnded,
    TrialTimedOut,
    WorkerAttached,
    WorkerLost,
    WorkRefused,
)
from asyncsearch.ids import CheckpointRef, Lease, TrialId, WorkerId
from asyncsearch.journal.format import SegmentReader
from asyncsearch.schedulers import ASHA, FIFO, SHA
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.simulate import Chance, Curves, Delays, Faults, Loss, Simulation, TrainingModel
from asyncsearch.space import Space, choice, uniform
from asyncsearch.trial import TrialState
from tests.engine.player import Player, only
from tests.engine.tools import PACKED_SCHEDULERS, W0, PackPlayer, Recorded, packed_state, record, replayed, results
from tests.schedulers.journal_oracle import require_legal_promotions

TOGETHER = TrainingModel(pack_speedup={64: 64.0})
"""A unit of a pack takes as long as one of a training."""


class Even:
    """Each unit takes a second, and the loss depends on the trial alone."""

    def value(self, trial: TrialId, params: Any, resource: int) -> float:
        return trial * 7 % 13 + 1 / resource

    def seconds(self, trial: TrialId, params: Any) -> float:
        return 1.0


def played(num_trials: int = 5, pack: int = 4) -> PackPlayer:
    """Return a player whose first pack has trained a unit of three lanes, and whose fourth has ended."""
    player = PackPlayer(trials=num_trials, pack=pack)
    for lane in range(4):
        player.lane(lane, 1)
    player.end(3, Outcome.FAILED, 1, "ValueError")
    return player


def joined(player: Player) -> list[tuple[int, int]]:
    """Return number and trial of each lane that joined in the last event."""
    return [(action.lane, action.added.stages[0].trials[0]) for action in only(player.last, AddLane)]


def test_a_new_trial_joins_the_pack_that_a_member_has_left() -> None:
    player = played()
    assert joined(player) == [(4, 4)]
    assert player.states()[4] is TrialState.RUNNING
    assert player.state.pool.slots[W0].lanes == 4
    assert player.state.next_lease == 5


def test_a_strategy_that_fails_when_asked_to_join_ends_the_run() -> None:
    def fails(_choice: Any) -> Any:
        raise KeyError("width")

    player = PackPlayer(trials=9, pack=4)
    assert player.state.packing is not None
    player.state.packing = msgspec.structs.replace(player.state.packing, strategy=fails)
    player.end(3, Outcome.FAILED, 0, "ValueError")
    (stop,) = only(player.last, StopRun)
    assert "raised KeyError: 'width'" in stop.reason
    assert joined(player) == []
    assert len(player.state.trials) == 4


def test_a_lane_that_joined_is_reported_and_ended_like_any_other() -> None:
    player = played()
    for lane in (0, 1, 2, 4):
        player.finish(lane)
    assert player.states() == [TrialState.COMPLETED] * 3 + [TrialState.FAILED, TrialState.COMPLETED]
    assert player.state.run is None


def test_no_more_trials_are_created_for_packs_than_asked_for() -> None:
    player = played(num_trials=4)
    assert joined(player) == []
    assert len(player.state.trials) == 4


def test_a_promotion_joins_a_pack_in_its_last_unit_which_it_outlives() -> None:
    player = Player(packed_state(ASHA(max_resource=9), pack=4))
    player.begin(4, 1)
    lease = Lease(0, W0, 1)
    told = []
    for lane in range(3):
        told += player.tell(Reported(lease, 1, {"loss": float(lane)}, lane))
        told += player.tell(TrainingEnded(lease, Outcome.REACHED, 1, 1, lane=lane))
        told += player.tell(CheckpointCommitted(lease, CheckpointRef(player.state.trials[lane].node, 1), lane=lane))
    # It trains that unit with the fourth if it comes in time, and goes on alone.
    assert only(told, Promote)
    (added,) = only(told, AddLane)
    assert added.added.stages[0].start == 1
    player.tell(TrainingEnded(lease, Outcome.FAILED, 0, error="it failed", lane=3))
    assert not only(player.last, Assign)
    assert [attempt.lane for attempt in player.state.attempts_under(lease)] == [added.lane]


def test_nothing_joins_while_a_worker_is_free_or_is_about_to_get_its_share() -> None:
    player = Player(packed_state(FIFO(max_resource=3), pack=8))
    player.tell(DriverStarted("test"))
    player.tell(RunRequested(6, 3))
    player.tell(WorkerAttached(W0, 1))
    assert [len(action.work.lanes) for action in only(player.last, Assign)] == [2]
    assert joined(player) == []
    player.tell(WorkerAttached(WorkerId(1), 1))
    player.tell(WorkerAttached(WorkerId(2), 1))
    assert [len(player.state.attempts_of(WorkerId(number))) for number in range(3)] == [2, 2, 2]


def test_what_fits_into_no_pack_is_not_overtaken_by_new_trials() -> None:
    space = Space.of({"x": uniform(0.0, 1.0), "width": choice([8, 16])})
    player = Player(packed_state(FIFO(max_resource=9), pack=4, space=space))
    player.begin(None, 1)
    lease = player.state.attempts[0].lease
    width = player.state.trials[0].params["width"]
    for _ in range(30):
        attempt = player.state.attempts_under(lease)[-1]
        player.tell(TrainingEnded(lease, Outcome.FAILED, 0, error="it failed", lane=attempt.lane))
        if len(player.state.attempts_under(lease)) == 1:
            break
    waiting = [trial for trial in player.state.trials if trial.state is TrialState.WAITING]
    assert waiting
    assert all(trial.params["width"] != width for trial in waiting)
    count = len(player.state.trials)
    (last,) = player.state.attempts_under(lease)
    player.tell(TrainingEnded(lease, Outcome.FAILED, 0, error="it failed", lane=last.lane))
    (work,) = [action.work for action in only(player.last, Assign)]
    assert work.lanes[0].stages[0].trials[0] == waiting[0].id
    assert count <= len(player.state.trials)


def test_a_lane_that_is_refused_before_it_begins_costs_nobody_anything() -> None:
    player = played()
    player.tell(WorkRefused(player.lease, "others train it", lane=4))
    assert [attempt.lane for attempt in player.state.attempts_under(player.lease)][:3] == [0, 1, 2]
    assert player.losses() == [0] * 5
    assert [number for number, _ in joined(player)] == [5]


def test_refused_work_takes_the_lane_that_was_to_join_it_along() -> None:
    player = played()
    player.tell(WorkRefused(player.lease, "others train it"))
    assert player.losses() == [0] * 5
    assert player.works() == [4]


def test_a_lane_stopped_before_it_begins_leaves_the_others_training() -> None:
    player = played()
    player.tell(TrainingEnded(player.lease, Outcome.STOPPED, 0, lane=4))
    assert [trial.state for trial in player.state.trials[:3]] == [TrialState.RUNNING] * 3
    assert [number for number, _ in joined(player)] == [5]


def test_losing_the_worker_costs_a_lane_about_to_join_one_attempt() -> None:
    player = played()
    player.tell(WorkerLost(W0, 1, "gone"))
    assert player.losses() == [1, 1, 1, 0, 1]
    assert player.state.attempts == {}


def test_nothing_joins_a_process_that_ends() -> None:
    player = played()
    player.end(0, Outcome.FAILED, 1, KILLED)
    assert joined(player) == []
    for lane in (1, 2, 4):
        player.end(lane, Outcome.FAILED, 0, KILLED)
    assert player.works() == [4]


def test_a_leases_time_limit_does_not_concern_lanes_that_joined_later() -> None:
    player = played()
    player.tell(TrialTimedOut(player.lease))
    assert player.states()[:3] == [TrialState.WAITING] * 3
    assert player.states()[4] is TrialState.RUNNING
    player.tell(TrialTimedOut(player.lease, 4))
    assert player.states()[4] is TrialState.WAITING


def test_nothing_joins_a_process_that_may_hang() -> None:
    player = played(num_trials=9)
    player.tell(TrialTimedOut(player.lease))
    assert player.states()[4] is TrialState.RUNNING
    player.end(0, Outcome.STOPPED, 1)
    assert joined(player) == []
    for lane in (1, 2, 4):
        player.end(lane, Outcome.STOPPED, 1)
    assert player.works() == [1], "those that hung together are tried alone"


def test_a_pack_that_has_had_many_lanes_gets_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncsearch.sizing.lanes._MOST_GIVEN", 7)
    player = PackPlayer(trials=40, pack=2)
    given = 2
    while len(player.state.attempts_under(player.lease)):
        (lane, *_) = [attempt.lane for attempt in player.state.attempts_under(player.lease)]
        player.end(lane, Outcome.FAILED, 0, "ValueError")
        given += len(joined(player))
    assert given == 8
    assert player.works() == [2]
    assert player.state.pool.slots[W0].given == 2


def test_nothing_joins_where_each_lease_is_to_have_a_process_of_its_own() -> None:
    state = packed_state(FIFO(max_resource=3))
    assert state.packing is not None
    state.packing = msgspec.structs.replace(state.packing, takes_joiners=False)
    player = Player(state)
    player.begin(9, 1)
    (action,) = only(player.last, Assign)
    assert action.work.is_open is msgspec.UNSET
    player.tell(TrainingEnded(action.work.lease, Outcome.FAILED, 0, error="it failed", lane=3))
    assert joined(player) == []


def test_a_stop_of_the_run_reaches_the_lanes_that_joined() -> None:
    player = played()
    player.tell(StopRequested("Ctrl-C"))
    assert [action.lane for action in only(player.last, StopTraining)] == [0, 1, 2, 4]


def test_trials_that_lost_attempts_repeatedly_join_no_pack() -> None:
    player = PackPlayer()
    for start in (0, 3):
        player.lease = Lease(start, W0, 1)
        for lane in range(3):
            player.end(lane, Outcome.FAILED, 0, KILLED)
    assert player.losses() == [2, 2, 2]
    assert joined(player) == []
    assert len(player.state.attempts) == 1


def test_a_trial_that_lost_attempts_repeatedly_joins_no_pack() -> None:
    player = Player(packed_state(FIFO(max_resource=9), pack=2))
    player.begin(8, 2)
    other = WorkerId(1)
    for _ in range(2):
        for attempt in player.state.attempts_of(other):
            player.tell(TrainingEnded(attempt.lease, Outcome.FAILED, 0, error_kind=KILLED, lane=attempt.lane))
    (alone,) = player.state.attempts_of(other)
    assert alone.trials == [2]
    player.tell(TrainingEnded(Lease(0, W0, 1), Outcome.FAILED, 0, error="it failed", lane=1))
    assert joined(player) == []
    assert player.states()[3] is TrialState.WAITING


def test_measured_packs_grow_by_joins_up_to_the_fastest_number_alone() -> None:
    state = packed_state(FIFO(max_resource=9), pack=64)
    assert state.packing is not None
    state.packing = msgspec.structs.replace(state.packing, is_measured=True)
    player = Player(state)
    player.begin(200, 1)
    lease, lanes = Lease(0, W0, 1), len(state.attempts)
    assert joined(player) == []
    found = tuple(PackSeconds(count, spent) for count, spent in ((1, 1.0), (2, 1.0), (4, 1.0), (8, 8.0)))
    player.tell(PackMeasured(lease, found))
    for lane in range(lanes - 3):
        player.tell(TrainingEnded(lease, Outcome.FAILED, 0, error="it failed", lane=lane))
        assert state.pool.slots[W0].lanes == max(4, lanes - lane - 1)


@pytest.mark.parametrize("faults", [Faults(), Faults(chance=Chance(drop=0.02, seed=4), max_losses=100)])
@pytest.mark.parametrize("scheduler", PACKED_SCHEDULERS)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_due_promotion_begins_within_a_unit_of_any_pack_with_room(
    scheduler: Scheduler, faults: Faults, workers: int
) -> None:
    state = packed_state(scheduler, pack=64, max_losses=100, max_relaunches=10**9)
    due: dict[TrialId, float] = {}
    delays: list[float] = []
    undecided_since = 0.0

    def watch(now: float, event: Any, actions: Any) -> None:
        nonlocal undecided_since
        if state.scheduler.next_promotion() is None or not any(0 < slot.lanes < 64 for slot in state.pool.alive()):
            undecided_since = now
        delays.append(now - undecided_since)
        if isinstance(event, Reported):
            number = event.lease.number + event.lane
            trials = state.attempts[number].trials if number in state.attempts else ()
            delays.extend(now - due.pop(trial) for trial in trials if trial in due)
        if isinstance(event, WorkerLost):
            due.clear()
        due.update({action.trial: now for action in only(list(actions), Promote)})

    simulation = Simulation(state, Even(), workers=workers, faults=faults, training=TOGETHER, watch=watch)
    end = simulation.run(40)
    assert end is not None
    assert end.is_complete
    assert len(state.trials) == 40
    # The rest of a unit, after which it begins, and its own first unit, after which it is seen here.
    assert max(delays, default=0.0) <= 2.0 + 1e-6


@pytest.mark.parametrize("pack", [2, 4, 16])
@pytest.mark.parametrize("workers", [1, 3])
def test_promotions_get_lanes_before_new_trials_in_new_and_full_packs(pack: int, workers: int) -> None:
    state = packed_state(ASHA(max_resource=27), pack=pack)
    given = 0

    def watch(now: float, event: Any, actions: Any) -> None:
        nonlocal given
        asked = [isinstance(one, CreateTrial) for one in actions if isinstance(one, CreateTrial | Promote)]
        assert asked == sorted(asked), "a trial was created before a promotion that was due"
        promotion = state.scheduler.next_promotion()
        is_saving = promotion is not None and state.trials[promotion.trial].state is TrialState.RUNNING
        assert not any(asked) or promotion is None or is_saving
        lanes = [lane for one in only(list(actions), Assign) for lane in one.work.lanes]
        lanes += [one.added for one in only(list(actions), AddLane)]
        if any(lane.stages[0].start == 0 for lane in lanes):
            given += 1
            assert not any(batch.is_urgent for batch in state.plan.ready_batches(99))

    simulation = Simulation(state, Even(), workers=workers, training=TOGETHER, watch=watch)
    assert simulation.run(60) is not None
    assert given > 60 / pack / workers / 4


@pytest.mark.parametrize("scheduler", PACKED_SCHEDULERS)
def test_a_driver_that_dies_before_a_lane_has_joined_loses_nothing(scheduler: Scheduler) -> None:
    def fresh() -> StudyState:
        return packed_state(scheduler)

    recorded = record(fresh(), 12, 1, faults=Faults(failures={TrialId(1): 1}), delays=Delays(commit_s=0.2))
    cuts = [at for at, (_, _, actions) in enumerate(recorded.steps) if only(list(actions), AddLane)]
    assert cuts or isinstance(scheduler, SHA)  # the units of its first rung end together
    for cut in cuts[:: max(1, len(cuts) // 4)]:
        state = replayed(fresh(), recorded.lines[: cut + 2])
        assert snapshot.encode(state, cut + 1) == recorded.states[cut]
        simulation = Simulation(state, Curves(seed=1, spread=0.5), workers=1)
        end = simulation.run(12)
        assert end is not None
        assert end.is_complete
        assert len(state.trials) == 12
        assert not [t for t in state.trials if t.state in (TrialState.WAITING, TrialState.RUNNING)]
        assert max(trial.losses for trial in state.trials) == 0


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("pack", [2, 4, 16])
def test_every_promotion_of_packs_that_are_joined_is_due_by_brute_force(workers: int, pack: int) -> None:
    state = packed_state(ASHA(max_resource=27), pack=pack, share=False)
    recorded = Recorded(state)
    faults = Faults(losses=[Loss(W0, 5.0, 3.0)], chance=Chance(spread=0.5, seed=2))
    simulation = Simulation(state, Even(), workers=workers, faults=faults, training=TOGETHER, watch=recorded)
    assert simulation.run(60) is not None
    entries = list(SegmentReader().read("000001.jsonl", recorded.lines))
    assert any(only(list(entry.actions), AddLane) for entry in entries)
    assert require_legal_promotions(entries, [1, 3, 9, 27]) > 10


def test_a_study_without_packs_decides_as_ever_and_nothing_joins() -> None:
    recorded = record(packed_state(ASHA(max_resource=9), pack=None), 12, 3)
    decided = [action for _, _, actions in recorded.steps for action in actions]
    assert not only(decided, AddLane)
    assert b"is_open" not in b"".join(recorded.lines)
    assert len(only(decided, CreateTrial)) == 12
    assert results(recorded.state)


@pytest.mark.parametrize("message_s", [0.0, 0.002])
def test_a_joiner_begins_in_the_unit_after_that_in_which_a_lane_left(message_s: float) -> None:
    """A pack in steady state is full, as in a runner, which waits a moment for joiners."""
    recorded = record(
        packed_state(ASHA(max_resource=9), pack=16),
        64,
        1,
        workload=Even(),
        training=TOGETHER,
        delays=Delays(message_s=message_s),
    )
    times = [now for now, event, _ in recorded.steps if isinstance(event, Reported)]
    rounds = [[times[0]]]
    for now in times[1:]:
        if now - rounds[-1][-1] > 0.5:
            rounds.append([])
        rounds[-1].append(now)
    created = max(now for now, _, actions in recorded.steps if only(actions, CreateTrial))
    filled = [len(found) for found in rounds if found[0] <= created]
    assert sum(filled) >= 15 * len(filled)
    assert len(filled) >= 3


@pytest.mark.parametrize("scheduler", [ASHA(max_resource=9), FIFO(max_resource=3)])
def test_a_joiner_is_asked_for_before_the_lane_it_replaces_has_saved(scheduler: Scheduler) -> None:
    recorded = record(packed_state(scheduler, pack=16), 64, 1, workload=Even(), training=TOGETHER)
    joined = [event for _, event, actions in recorded.steps for _ in only(actions, AddLane)]
    at_ends = [event for event in joined if isinstance(event, Reported)]
    assert len(at_ends) >= 0.9 * len(joined)


def test_a_last_report_that_decides_nothing_makes_room_for_a_joiner() -> None:
    player = PackPlayer(trials=3, pack=2)
    for lane in (0, 1):
        player.lane(lane, 2)
        assert joined(player) == []
    player.lane(0, 3)
    assert joined(player) == [(2, 2)]


def test_a_lane_whose_place_is_anothers_does_not_go_on_in_it() -> None:
    player = Player(packed_state(ASHA(max_resource=9), pack=3))
    player.begin(20, 2)
    full, other = Lease(0, W0, 1), Lease(3, WorkerId(1), 1)
    player.tell(Reported(full, 1, {"loss": 0.1}, 0))
    assert joined(player) == [(6, 6)]
    for lane in (0, 1):
        player.tell(Reported(other, 1, {"loss": 1.0}, lane))
        assert not only(player.last, Promote), "it is the best of three, and goes on once it has saved"


def test_a_unit_counts_neither_who_saves_nor_who_comes_then() -> None:
    player = PackPlayer(trials=4, pack=2)
    for lane in (0, 1):
        player.lane(lane, 2)
    player.finish(0)
    player.lane(1, 3)
    assert joined(player) == [(3, 3)]
    player.lane(2, 1)
    assert player.state.attempts[2].peers == 2


def test_a_joiner_that_all_others_leave_before_it_begins_trains_alone() -> None:
    player = PackPlayer(trials=4, pack=3)
    for lane in range(3):
        player.lane(lane, 3)
    for lane in range(3):
        player.end(lane, Outcome.RETURNED, 3)
    player.lane(3, 1)
    assert player.state.attempts[3].lanes == player.state.attempts[3].peers == 1
