"""Laws of gangs that hold after every event: workers are lost, leases end and the driver restarts at any time."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.actions import AnyAction, Assign
from asyncsearch.engine.pool import SlotState
from asyncsearch.engine.state import StudyState
from asyncsearch.events import RunRequested
from asyncsearch.schedulers import ASHA, FIFO, PBT, SHA, Hyperband
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.sizing.gangs import Gang
from asyncsearch.testing.random_cluster import RandomCluster
from asyncsearch.testing.recording import Training
from asyncsearch.trial import TrialState
from tests.engine.test_random_events import SHARED
from tests.engine.tools import live_through, make_state
from tests.examples import examples

SCHEDULERS = [
    pytest.param(FIFO(max_resource=4), id="fifo"),
    pytest.param(ASHA(max_resource=9), id="asha"),
    pytest.param(SHA(max_resource=9), id="sha"),
    pytest.param(Hyperband(max_resource=9, brackets=2), id="hyperband"),
    pytest.param(PBT(max_resource=9, perturbation_interval=3), id="pbt"),
]
GANGS = [Gang(2), Gang(3), Gang(3, min_size=2), Gang(4, min_size=1)]


class GangWorld(RandomCluster):
    """Agents of which several train one lease; the first one's events count for all."""

    def begin_run(self) -> None:
        gang = self.state.gang
        assert gang is not None
        if self.state.run is None:
            self.end = None
            self.tell(RunRequested(self.chance.randint(1, 14), self.chance.randint(gang.size, 2 * gang.size + 1)))

    def decided(self, actions: Sequence[AnyAction]) -> None:
        gang = self.state.gang
        assert gang is not None
        for action in actions:
            if isinstance(action, Assign):
                members = action.work.gang
                assert isinstance(members, tuple)
                self.require_size(len(members))
                assert members[0].worker == action.work.lease.worker
                assert all(self.state.pool.is_current(member.worker, member.epoch) for member in members)
        self.require_apart()

    def require_size(self, size: int) -> None:
        """Require that a gang may have so many workers."""
        gang = self.state.gang
        assert gang is not None
        assert (gang.min_size or gang.size) <= size <= gang.size

    def fetch(self, training: Training, *, is_kind: bool) -> None:
        if self.state.attempt(training.lease) is None:  # a member was lost, and rank 0 is told to drop the work
            training.is_loaded = training.is_ended = True
        else:
            super().fetch(training, is_kind=is_kind)

    def require_apart(self) -> None:
        """Require that no worker is in two gangs, and that each worker that trains is in one."""
        slots = self.state.pool.slots
        gangs = [
            [slot.worker, *slot.followers] for slot in slots.values() if slot.lease is not None and slot.leader is None
        ]
        members = [worker for gang in gangs for worker in gang]
        assert len(members) == len(set(members)), f"a worker is in two gangs: {gangs}"
        assert set(members) == {slot.worker for slot in slots.values() if slot.state is SlotState.BUSY}


@pytest.mark.parametrize("gang", GANGS, ids=repr)
@pytest.mark.parametrize("scheduler", SCHEDULERS)
@settings(max_examples=examples(15), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 250), save_every=st.sampled_from([None, 2]))
def test_whatever_happens_no_worker_is_in_two_gangs_and_the_run_ends(
    scheduler: Scheduler, gang: Gang, seed: int, steps: int, save_every: int | None
) -> None:
    def make() -> StudyState:
        state = make_state(scheduler, max_failures=seed % 3, save_every=save_every)
        state.gang = gang
        return state

    world = GangWorld(make, random.Random(seed), is_fickle=True)
    live_through(world, steps)
    assert all(trial.state is not TrialState.RUNNING for trial in world.state.trials)


@settings(max_examples=examples(15), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 250))
def test_whatever_happens_gangs_train_shared_stages_once(seed: int, steps: int) -> None:
    def make() -> StudyState:
        state = make_state(ASHA(max_resource=9), GridSearch(), SHARED)
        state.gang = GANGS[seed % len(GANGS)]
        return state

    live_through(GangWorld(make, random.Random(seed)), steps)
