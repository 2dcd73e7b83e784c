"""A study that shares its workers with others: it launches what it may have, and gives back at boundaries of stages."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.actions import AnyAction, Assign, CutWork, DismissWorker, EndRun, LaunchWorker, StopTraining
from asyncsearch.engine.pool import SlotState
from asyncsearch.engine.sizing.share import demand, excess
from asyncsearch.engine.state import StudyState
from asyncsearch.events import (
    CheckpointCommitted,
    DriverStarted,
    Outcome,
    RunRequested,
    ShareChanged,
    TrainingEnded,
    WorkerAttached,
    WorkerLost,
)
from asyncsearch.ids import CheckpointRef, WorkerId
from asyncsearch.schedulers import ASHA, FIFO, SHA, Hyperband
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.sequences import multistep
from asyncsearch.space import Space, choice
from asyncsearch.testing.random_cluster import RandomCluster
from asyncsearch.trial import TrialState
from tests.engine.player import Player, lease_of, only
from tests.engine.tools import PACKED_SCHEDULERS, make_state, packed_state
from tests.examples import examples

W0, W1 = WorkerId(0), WorkerId(1)
STEPS = Space({"lr": choice(multistep(0.1, milestones=choice([4], [6])), multistep(0.2, milestones=choice([4], [6])))})


def sharing(scheduler: Scheduler, trials: int | None = 8, workers: int = 4, **config: Any) -> Player:
    """Return a study on a cluster of so many workers, of which it may have none yet."""
    player = Player(make_state(scheduler, **config))
    player.tell(DriverStarted("test"))
    player.tell(RunRequested(trials, workers, share=0))
    return player


def granted(player: Player, workers: int, *, is_urgent: bool = False) -> list[AnyAction]:
    """Give a study a share, attach the workers that it launches, and return all that it decided."""
    actions = player.tell(ShareChanged(workers, is_urgent))
    for launch in only(actions, LaunchWorker):
        actions = actions + player.tell(WorkerAttached(launch.worker, launch.epoch))
    return actions


def test_a_study_without_a_share_waits_and_launches_what_it_is_granted() -> None:
    player = sharing(FIFO(max_resource=3))
    assert player.last == []
    assert demand(player.state, 4) == 4
    assert [launch.worker for launch in only(granted(player, 2), LaunchWorker)] == [0, 1]
    assert len(player.state.attempts) == 2
    assert demand(player.state, 4) == 4


def test_it_never_launches_more_than_its_run_has_workers() -> None:
    player = sharing(FIFO(max_resource=3), workers=2)
    assert len(only(granted(player, 9), LaunchWorker)) == 2


def test_a_worker_is_given_back_when_its_stage_ends_and_nothing_is_stopped() -> None:
    player = sharing(ASHA(max_resource=9))
    lease = lease_of(granted(player, 1))
    assert player.tell(ShareChanged(0)) == []
    actions = player.reach(lease, 1)
    assert not only(actions, Assign)
    assert not only(actions, StopTraining)
    assert [back.worker for back in only(actions, DismissWorker)] == [0]
    assert player.state.trials[0].state is TrialState.PAUSED
    assert not player.state.pool.alive()


def test_a_worker_whose_checkpoint_is_not_durable_yet_is_kept_until_it_is() -> None:
    player = sharing(ASHA(max_resource=9))
    lease = lease_of(granted(player, 1))
    player.tell(ShareChanged(0))
    player.report(lease, 1)
    assert not only(player.tell(TrainingEnded(lease, Outcome.REACHED, 1, 1)), DismissWorker)
    node = player.state.trials[0].node
    assert only(player.tell(CheckpointCommitted(lease, CheckpointRef(node, 1))), DismissWorker)


def test_of_two_workers_the_idle_one_is_given_back_at_once() -> None:
    player = sharing(FIFO(max_resource=3), trials=1)
    granted(player, 2)
    assert [back.worker for back in only(player.tell(ShareChanged(1)), DismissWorker)] == [1]


def test_a_worker_that_is_being_launched_is_given_back_before_a_busy_one() -> None:
    player = sharing(FIFO(max_resource=3))
    granted(player, 1)
    player.tell(ShareChanged(2))
    assert [back.worker for back in only(player.tell(ShareChanged(1)), DismissWorker)] == [1]
    assert player.state.pool.slots[W0].state is SlotState.BUSY


def test_a_batch_ends_at_the_next_boundary_and_the_rest_is_replanned() -> None:
    state = make_state(FIFO(max_resource=9), space=STEPS, searcher=GridSearch(), share=True, look_ahead=9)
    player = Player(state)
    player.tell(DriverStarted("test"))
    player.tell(RunRequested(4, 4, share=0))
    work = only(granted(player, 1), Assign)[0].work
    assert [(stage.start, stage.stop) for stage in work.lanes[0].stages] == [(0, 4), (4, 6), (6, 9)]
    (cut,) = only(player.tell(ShareChanged(0)), CutWork)
    assert cut.stop == 4
    for unit in (1, 2, 3, 4):
        player.report(work.lease, unit)
    player.tell(TrainingEnded(work.lease, Outcome.REACHED, 4, 4))
    actions = player.tell(CheckpointCommitted(work.lease, CheckpointRef(work.lanes[0].stages[0].node, 4)))
    assert only(actions, DismissWorker)
    assert demand(player.state, 9) == 3, "two trials go on from there, and the other learning rate begins"
    again = only(granted(player, 1), Assign)[0].work
    assert again.lanes[0].load == CheckpointRef(work.lanes[0].stages[0].node, 4)


@pytest.mark.parametrize("can_save", [True, False])
def test_an_urgent_return_ends_the_unit_if_training_can_be_saved_there(can_save: bool) -> None:
    player = sharing(FIFO(max_resource=9), can_save=can_save)
    lease = lease_of(granted(player, 1))
    player.report(lease, 3)
    assert not only(player.tell(ShareChanged(0)), CutWork)
    cuts = only(player.tell(ShareChanged(0, is_urgent=True)), CutWork)
    assert [cut.stop for cut in cuts] == ([4] if can_save else [])
    if can_save:
        player.report(lease, 4)
        player.tell(TrainingEnded(lease, Outcome.REACHED, 4, 4))
        node = player.state.trials[0].node
        assert only(player.tell(CheckpointCommitted(lease, CheckpointRef(node, 4))), DismissWorker)
        assert player.state.trials[0].state is TrialState.WAITING
        assert only(granted(player, 1), Assign)[0].work.lanes[0].load == CheckpointRef(node, 4)


def test_a_lost_worker_beyond_the_share_is_not_launched_again() -> None:
    player = sharing(FIFO(max_resource=3))
    granted(player, 1)
    player.tell(ShareChanged(0))
    assert not only(player.tell(WorkerLost(W0, 1, "killed")), LaunchWorker)
    assert only(granted(player, 1), LaunchWorker)


def test_a_run_ends_once_the_workers_of_all_slots_were_lost_in_vain() -> None:
    player = sharing(FIFO(max_resource=3), workers=2, max_relaunches=1)
    player.tell(ShareChanged(1))
    ends: list[EndRun] = []
    for _ in range(9):
        slots = player.state.pool.alive()
        actions = player.tell(WorkerLost(slots[0].worker, slots[0].epoch, "no such file"))
        actions += player.tell(ShareChanged(1)) if player.state.run else []
        ends += only(actions, EndRun)
        if ends:
            break
    assert ends[0].error_kind == "WorkersLostError"
    assert {slot.fruitless for slot in player.state.pool.slots.values()} == {2}


def test_the_demand_falls_as_the_trials_run_out_and_is_none_after_the_run() -> None:
    player = sharing(FIFO(max_resource=1), trials=2)
    actions = granted(player, 2)
    leases = [action.work.lease for action in only(actions, Assign)]
    assert demand(player.state, 4) == 2
    player.reach(leases[0], 1)
    assert demand(player.state, 4) == 1
    player.reach(leases[1], 1)
    assert player.state.run is None
    assert demand(player.state, 4) == 0


def test_the_demand_of_packed_work_counts_workers_and_not_trials() -> None:
    player = Player(packed_state(FIFO(max_resource=3), pack=4))
    player.tell(DriverStarted("test"))
    player.tell(RunRequested(9, 8, share=0))
    assert demand(player.state, 8) == 3


class SharingWorld(RandomCluster):
    """A study whose share changes at any time."""

    def begin_run(self) -> None:
        if self.state.run is None:
            self.end = None
            self.tell(
                RunRequested(self.chance.randint(1, 14), self.chance.randint(1, 4), share=self.chance.randint(0, 2))
            )

    def share(self) -> None:
        self.tell(ShareChanged(self.chance.randint(0, 5), self.chance.random() < 0.3))

    def decided(self, actions: Sequence[AnyAction]) -> None:
        super().decided(actions)
        state = self.state
        idle = [slot.worker for slot in state.pool.alive() if slot.state is SlotState.IDLE and excess(state)]
        assert not state.run or state.stopping or all(state.attempts_of(worker) for worker in idle)
        assert not excess(state) or not only(list(actions), LaunchWorker)
        for back in only(list(actions), DismissWorker):
            assert not state.attempts_of(back.worker), "its checkpoint would be lost"

    def step(self) -> None:
        if self.chance.random() < 0.1:
            self.share()
        else:
            super().step()

    def attach(self) -> None:
        if self.is_draining and self.state.run is not None and self.state.run.share != (most := self.demand()):
            self.tell(ShareChanged(most))
        super().attach()

    def demand(self) -> int:
        return demand(self.state, 3)

    is_draining = False

    def drain(self) -> None:
        self.is_draining = True
        super().drain()


@pytest.mark.parametrize(
    "scheduler", [FIFO(max_resource=6), SHA(max_resource=9), ASHA(max_resource=9), Hyperband(max_resource=9)]
)
@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 200))
def test_whatever_the_share_states_are_whole_and_met_demands_end_the_run(
    scheduler: Scheduler, seed: int, steps: int
) -> None:
    world = SharingWorld(lambda: make_state(scheduler, can_save=seed % 2 == 0), random.Random(seed))
    live(world, steps)


@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 200))
def test_so_it_is_where_trials_share_stages(seed: int, steps: int) -> None:
    def make() -> StudyState:
        return make_state(
            SHA(max_resource=9), space=STEPS, searcher=GridSearch(), share=True, look_ahead=9, can_save=seed % 2 == 0
        )

    live(SharingWorld(make, random.Random(seed)), steps)


@pytest.mark.parametrize("scheduler", PACKED_SCHEDULERS)
@settings(max_examples=examples(10), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 150))
def test_so_it_is_with_packs(scheduler: Scheduler, seed: int, steps: int) -> None:
    live(SharingWorld(lambda: packed_state(scheduler, can_save=seed % 2 == 0), random.Random(seed)), steps)


def live(world: SharingWorld, steps: int) -> None:
    world.live(steps)
    world.require_memory()
    world.require_same_decisions()
    world.drain()
    world.require_memory()
