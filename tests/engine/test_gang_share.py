"""A study of gangs that shares its workers with others: it waits for whole gangs, and gives them back at boundaries."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.actions import Assign, CutWork, DismissWorker, EndRun, LaunchWorker, MoveTrial, StopTraining
from asyncsearch.engine.sizing.share import demand
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
from asyncsearch.ids import CheckpointRef, Lease, WorkerId
from asyncsearch.schedulers import ASHA, FIFO, SHA, Hyperband
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.sizing.autoscale import Autoscale, KnownSpeed, KnownSpeeds
from asyncsearch.sizing.gangs import Gang
from asyncsearch.sizing.packing import group_of
from asyncsearch.study.asked.gang_option import sizes_of
from tests.engine.player import Player, lease_of, only
from tests.engine.test_random_gangs import GANGS, GangWorld
from tests.engine.test_share import SharingWorld, granted, live
from tests.engine.tools import make_state
from tests.examples import examples


def sharing(gang: Gang, scheduler: Scheduler, trials: int = 8, workers: int = 6, **config: Any) -> Player:
    """Return a study of gangs on a cluster of so many workers, of which it may have none yet."""
    state = make_state(scheduler, **({"can_save": True} | config))
    state.gang = gang
    player = Player(state)
    player.tell(DriverStarted("test"))
    player.tell(RunRequested(trials, workers, share=0))
    return player


def ended(player: Player, lease: Lease, resource: int) -> list[Any]:
    """Let a training end at the end of a unit, with its checkpoint; return what was decided."""
    actions = player.tell(TrainingEnded(lease, Outcome.REACHED, resource, resource))
    node = player.state.trials[0].node
    return actions + player.tell(CheckpointCommitted(lease, CheckpointRef(node, resource)))


def test_a_study_without_a_share_waits_and_does_not_end() -> None:
    player = sharing(Gang(2), FIFO(max_resource=3))
    assert not only(player.last, EndRun)
    assert not only(player.tell(ShareChanged(0)), EndRun)
    assert player.state.run is not None


def test_its_demand_counts_whole_gangs() -> None:
    player = sharing(Gang(2), FIFO(max_resource=3), trials=2, workers=9)
    assert demand(player.state, 9) == 4
    granted(player, 2)
    assert demand(player.state, 9) == 4
    assert demand(player.state, 3) == 3


def test_trials_with_more_workers_than_others_count_by_the_others_number() -> None:
    player = larger()
    assert [slot.lease for slot in player.state.pool.alive()] == [1, 1, 1]
    assert demand(player.state, 6) == 1


def larger() -> Player:
    """Return a study with one trial that has trained a unit on one worker and goes on with three."""
    player = sharing(Gang(1, autoscale=Autoscale(0.5)), FIFO(max_resource=40), trials=1)
    params = player.state.searcher.propose(0)
    assert params is not None
    player.state.speeds[group_of(params)] = KnownSpeeds(
        {"": KnownSpeed({1: [10.0], 4: [3.0]}, {4: [3.0]}, ratios={4: [0.3]})}
    )
    lease = lease_of(granted(player, 3))
    player.report(lease, 1)
    player.report(lease, 2)
    ended(player, lease, 3)
    return player


def test_a_gang_is_returned_whole_when_its_stage_ends_without_a_stop() -> None:
    player = sharing(Gang(3), ASHA(max_resource=9))
    lease = lease_of(granted(player, 3))
    assert player.tell(ShareChanged(0)) == []
    actions = player.reach(lease, 1)
    assert not only(actions, StopTraining)
    assert sorted(back.worker for back in only(actions, DismissWorker)) == [0, 1, 2]
    assert not player.state.pool.alive()


def test_as_many_gangs_end_their_units_as_cover_what_is_asked_for() -> None:
    player = sharing(Gang(2), FIFO(max_resource=9))
    granted(player, 6)
    assert len(only(player.tell(ShareChanged(4, is_urgent=True)), CutWork)) == 1
    assert len(only(player.tell(ShareChanged(2, is_urgent=True)), CutWork)) == 1, "one is on its way"


def test_a_half_formed_gang_gives_back_what_it_has() -> None:
    player = sharing(Gang(3), FIFO(max_resource=3))
    launches = only(player.tell(ShareChanged(3)), LaunchWorker)
    player.tell(WorkerAttached(launches[0].worker, launches[0].epoch))
    assert not player.state.attempts
    assert len(only(player.tell(ShareChanged(0)), DismissWorker)) == 3


def test_a_lost_worker_of_a_gang_is_replaced_within_the_share() -> None:
    player = sharing(Gang(2), FIFO(max_resource=3))
    granted(player, 2)
    assert [launch.worker for launch in only(player.tell(WorkerLost(WorkerId(1), 1, "killed")), LaunchWorker)] == [1]
    player.tell(ShareChanged(0))
    assert not player.state.pool.alive()
    assert not only(player.tell(WorkerLost(WorkerId(0), 1, "killed")), LaunchWorker)


def test_a_slot_whose_workers_are_lost_in_vain_is_replaced_by_another_one() -> None:
    player = sharing(Gang(2), FIFO(max_resource=3), workers=3, max_relaunches=0)
    player.tell(ShareChanged(2))
    assert [launch.worker for launch in only(player.tell(WorkerLost(WorkerId(0), 1, "bad host")), LaunchWorker)] == [2]
    (end,) = only(
        player.tell(WorkerLost(WorkerId(1), 1, "bad host")) + player.tell(WorkerAttached(WorkerId(2), 1)), EndRun
    )
    assert end.reason == ("a trial needs 2 workers, and only 1 are left: the others were lost too many times in a row")


def test_when_the_share_falls_a_larger_training_shrinks_after_its_unit() -> None:
    player = larger()
    (lease,) = {attempt.lease for attempt in player.state.attempts.values()}
    (cut,) = only(player.tell(ShareChanged(1)), CutWork)
    assert cut.stop == 4
    player.report(lease, 4)
    actions = ended(player, lease, 4)
    assert len(only(actions, DismissWorker)) == 2
    (again,) = only(actions, Assign)
    assert (len(again.work.followers), again.work.lanes[0].stages[0].start) == (0, 4)
    moves = [action for action in actions if isinstance(action, MoveTrial)]
    assert moves[0].reason == "it goes on with fewer workers, since another study has some of its own"


class SharedGangWorld(SharingWorld, GangWorld):
    """A study of gangs whose share changes at any time, also to what its gangs cannot use."""

    def begin_run(self) -> None:
        assert self.state.gang is not None
        if self.state.run is None:
            self.end_of_run = None
            size, chance = self.state.gang.size, self.chance
            self.tell(RunRequested(chance.randint(1, 14), chance.randint(size, 2 * size + 1), share=0))

    def demand(self) -> int:
        assert self.state.run is not None
        return sizes_of(self.state.gang).usable(demand(self.state, self.state.run.parallelism))


@pytest.mark.parametrize("gang", GANGS, ids=repr)
@pytest.mark.parametrize("scheduler", [FIFO(max_resource=6), SHA(max_resource=9), Hyperband(max_resource=9)])
@settings(max_examples=examples(15), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 200))
def test_whatever_the_share_is_no_worker_is_in_two_gangs_and_the_run_ends(
    scheduler: Scheduler, gang: Gang, seed: int, steps: int
) -> None:
    def make() -> StudyState:
        state = make_state(scheduler, can_save=seed % 2 == 0)
        state.gang = gang
        return state

    live(SharedGangWorld(make, random.Random(seed)), steps)
