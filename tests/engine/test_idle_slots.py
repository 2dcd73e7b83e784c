"""Workers that can get nothing before another trial reports give their slots back, and are launched when they can."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.actions import AnyAction, Assign, DismissWorker, EndRun, LaunchWorker, Promote
from asyncsearch.engine.pool import SlotState
from asyncsearch.engine.sizing.idle_slots import IdleTimes, surplus
from asyncsearch.engine.state import StudyState
from asyncsearch.events import DriverStarted, WorkerAttached, WorkerLost, WorkersIdled
from asyncsearch.ids import Lease, WorkerId
from asyncsearch.schedulers import ASHA, FIFO, SHA, Hyperband
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.sizing.gangs import Gang
from asyncsearch.testing.random_cluster import RandomCluster
from asyncsearch.testing.recording import restored
from tests.engine.player import Player, lease_of, only
from tests.engine.test_random_gangs import GANGS, GangWorld
from tests.engine.tools import PACKED_SCHEDULERS, live_through, make_state, packed_state
from tests.examples import examples


def idled(state: StudyState) -> WorkersIdled:
    """Return the fact that all idle workers were so for long."""
    slots = [slot for slot in state.pool.alive() if slot.state is SlotState.IDLE]
    return WorkersIdled(tuple([(slot.worker, slot.epoch) for slot in slots]), 10.0)


def begun(scheduler: Scheduler, trials: int, workers: int, **config: Any) -> Player:
    player = Player(make_state(scheduler, **config))
    player.begin(trials, workers)
    return player


def test_with_one_trial_left_all_other_workers_give_their_slots_back() -> None:
    player = begun(FIFO(max_resource=9), 1, 4)
    gone = only(player.tell(idled(player.state)), DismissWorker)
    assert sorted(one.worker for one in gone) == [1, 2, 3]
    assert all(one.is_released and "10 s" in one.reason for one in gone)
    assert surplus(player.state) == 0


def test_a_promotion_that_is_due_takes_a_slot_again_at_once() -> None:
    player = begun(ASHA(max_resource=9, reduction_factor=2), 3, 3)
    leases = [player.state.attempts[number].lease for number in range(3)]
    player.reach(leases[0], 1, loss=2.0)
    player.tell(idled(player.state))
    assert player.state.pool.released == {0}
    actions = player.reach(leases[1], 1, loss=3.0)
    assert only(actions, Promote)[0].trial == 0
    (launch,) = only(actions, LaunchWorker)
    assert (launch.worker, launch.epoch) == (0, 2)


def test_a_promotion_does_not_wait_for_the_start_of_anothers_worker() -> None:
    player = begun(ASHA(max_resource=9), 8, 8)
    leases = [player.state.attempts[number].lease for number in range(8)]
    for number in range(2):
        player.reach(leases[number], 1, loss=float(number))
    player.tell(idled(player.state))
    first = [action.worker for number in range(2, 5) for action in reported(player, leases[number])]
    assert (first, player.state.pool.released) == ([0], {1})
    assert [launch.worker for launch in reported(player, leases[5])] == [1]


def reported(player: Player, lease: Lease) -> list[LaunchWorker]:
    """Report a bad value at the first rung, and return which workers are launched for what is promoted then."""
    return only(player.report(lease, 1, 8.0 + lease.number), LaunchWorker)


def test_a_promotion_in_place_launches_nothing() -> None:
    player = begun(ASHA(max_resource=9, reduction_factor=2), 2, 4)
    player.tell(idled(player.state))
    player.reach(player.state.attempts[0].lease, 1, loss=9.0)
    player.tell(idled(player.state))
    actions = player.report(player.state.attempts[1].lease, 1, loss=1.0)
    assert only(actions, Promote)
    assert not only(actions, LaunchWorker)


def test_promotions_that_are_due_at_once_have_a_worker_each() -> None:
    player = begun(Hyperband(max_resource=4, reduction_factor=2, variant="synchronous"), 4, 4)
    leases = [player.state.attempts[number].lease for number in range(4)]
    for number, lease in enumerate(leases[:3]):
        player.reach(lease, 1, loss=float(number))
    player.tell(idled(player.state))
    assert len(player.state.pool.released) == 3
    actions = player.reach(leases[3], 1, loss=9.0)
    assert len(only(actions, Promote)) == 2
    begins = [action.worker for action in only(actions, LaunchWorker)]
    assert len(begins) == 2, "the worker that has just reported may be storing for long"


def test_a_worker_that_stores_a_checkpoint_keeps_its_slot() -> None:
    player = begun(ASHA(max_resource=9), 2, 2)
    lease = player.state.attempts[0].lease
    fact = WorkersIdled(((WorkerId(0), 1),), 10.0)
    player.report(lease, 1)
    assert not player.tell(fact)
    player.reach(player.state.attempts[1].lease, 1)
    assert player.state.pool.slots[WorkerId(0)].state is not SlotState.GONE


def test_workers_that_wait_for_a_gang_to_gather_keep_their_slots() -> None:
    state = make_state(FIFO(max_resource=3))
    state.gang = Gang(3)
    player = Player(state)
    player.begin(2, 5)
    assert state.pool.count_idle() == 2
    assert not player.tell(idled(state)), "the second trial begins as soon as one more is idle"


def test_the_last_worker_keeps_its_slot_though_another_study_trains() -> None:
    player = begun(FIFO(max_resource=9), 1, 2)
    node = player.state.trials[0].node
    player.tell(WorkerLost(WorkerId(0), 1, "killed"))
    player.state.block(node)
    player.tell(idled(player.state))
    assert player.state.pool.alive()


def test_a_lost_worker_is_replaced_by_one_in_a_slot_that_went_back() -> None:
    player = begun(FIFO(max_resource=9), 1, 2, max_relaunches=0)
    player.tell(idled(player.state))
    actions = player.tell(WorkerLost(WorkerId(0), 1, "killed"))
    assert not only(actions, EndRun)
    assert [launch.worker for launch in only(actions, LaunchWorker)] == [1]
    assert only(player.tell(WorkerAttached(WorkerId(1), 2)), Assign)


def test_a_restored_study_knows_which_slots_went_back() -> None:
    player = begun(FIFO(max_resource=9), 1, 3)
    player.tell(idled(player.state))
    state = restored(player.state, make_state(FIFO(max_resource=9)))
    assert state.pool.released == player.state.pool.released == {1, 2}
    player.tell(DriverStarted("test"))
    assert not player.state.pool.released


def test_a_worker_that_got_work_meanwhile_keeps_it() -> None:
    player = begun(FIFO(max_resource=9), 2, 2)
    assert not player.tell(WorkersIdled(((WorkerId(0), 1), (WorkerId(1), 1)), 10.0))


def test_the_time_without_a_use_begins_anew_with_each_training() -> None:
    player = begun(FIFO(max_resource=1), 3, 2)
    times = IdleTimes(10.0)
    times.observe(player.state, 0.0)
    assert times.next_due() is None
    leases = [player.state.attempts[number].lease for number in range(2)]
    again = lease_of(player.reach(leases[0], 1))
    player.reach(leases[1], 1)
    times.observe(player.state, 5.0)
    assert times.next_due() == 15.0
    assert times.overdue(player.state, 14.0) is None
    assert times.overdue(player.state, 15.0) == WorkersIdled(((WorkerId(1), 1),), 10.0)
    player.reach(again, 1)
    times.observe(player.state, 16.0)
    assert times.next_due() is None, "the run is over, and nobody is idle"


class IdleWorld(RandomCluster):
    """A study whose idle workers are told to be idle at any time."""

    def step(self) -> None:
        if self.chance.random() < 0.2:
            self.tell(idled(self.state))
        else:
            super().step()

    def decided(self, actions: Sequence[AnyAction]) -> None:
        super().decided(actions)
        for gone in only(list(actions), DismissWorker):
            assert not gone.is_released or not self.state.attempts_of(gone.worker), "its checkpoint would be lost"
        assert not self.state.run or self.state.stopping or surplus(self.state) >= 0 or not self.state.pool.released


SCHEDULERS: list[Any] = [
    FIFO(max_resource=3),
    SHA(max_resource=9),
    ASHA(max_resource=9),
    ASHA(max_resource=9, variant="stopping"),
    Hyperband(max_resource=9, variant="synchronous"),
]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 200))
def test_whoever_is_idle_when_states_are_whole_and_the_run_ends(scheduler: Scheduler, seed: int, steps: int) -> None:
    live(lambda: make_state(scheduler), seed, steps)


@pytest.mark.parametrize("scheduler", PACKED_SCHEDULERS[:2])
@settings(max_examples=examples(10), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 150))
def test_so_it_is_with_packs(scheduler: Scheduler, seed: int, steps: int) -> None:
    live(lambda: packed_state(scheduler), seed, steps)


class IdleGangWorld(IdleWorld, GangWorld):
    """The same with gangs."""


@pytest.mark.parametrize("gang", GANGS, ids=repr)
@settings(max_examples=examples(10), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 200))
def test_so_it_is_with_gangs(gang: Gang, seed: int, steps: int) -> None:
    def make() -> StudyState:
        state = make_state(ASHA(max_resource=9))
        state.gang = gang
        return state

    live_through(IdleGangWorld(make, random.Random(seed)), steps)


def live(make: Callable[[], StudyState], seed: int, steps: int) -> None:
    live_through(IdleWorld(make, random.Random(seed)), steps)
