"""Laws of packs that hold after every event: lanes join, are refused, time out and die, and the driver restarts."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.actions import AddLane, AnyAction, Assign, lanes_given
from asyncsearch.engine.state import StudyState
from asyncsearch.events import WorkRefused
from asyncsearch.schedulers import ASHA, FIFO, PBT, SHA, Hyperband, MedianStopping
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.searchers.random import RandomSearch
from asyncsearch.sequences import multistep
from asyncsearch.sizing.pack_strategies import PACK_STRATEGIES
from asyncsearch.sizing.packing import Packing
from asyncsearch.space import Space, choice, randint, uniform
from asyncsearch.testing.random_cluster import RandomCluster
from asyncsearch.testing.recording import HISTORIES
from asyncsearch.trial import TrialState
from tests.engine.test_random_events import OWN_ENDS, SHARED, require_the_truth
from tests.engine.tools import live_through, packed_state
from tests.examples import examples

SCHEDULERS = [
    pytest.param(FIFO(max_resource=9), id="fifo"),
    pytest.param(ASHA(max_resource=9), id="asha"),
    pytest.param(ASHA(max_resource=9, variant="stopping"), id="stopping"),
    pytest.param(SHA(max_resource=9), id="sha"),
    pytest.param(Hyperband(max_resource=9, brackets=2), id="hyperband"),
    pytest.param(Hyperband(max_resource=9, brackets=2, variant="synchronous"), id="synchronous hyperband"),
    pytest.param(PBT(max_resource=9, perturbation_interval=3), id="pbt"),
    pytest.param(MedianStopping(max_resource=9, min_trials=2, interval=1), id="median"),
]
ALIKE = Space.of({"x": uniform(0.0, 1.0)})
TWO_WIDTHS = Space.of({"x": uniform(0.0, 1.0), "width": choice([8, 16])})
FORKED = Space({"n": randint(1, 2), "decay": multistep(0.1, milestones=choice([4], [6]))})
SEARCHES = [
    pytest.param(ALIKE, RandomSearch(), id="alike"),
    pytest.param(TWO_WIDTHS, RandomSearch(), id="two widths"),
    pytest.param(SHARED, GridSearch(), id="shared stages"),
]


class PackedWorld(RandomCluster):
    """Agents that train lanes together, some of which join later or are refused before their worker has them."""

    joined = 0

    def decided(self, actions: Sequence[AnyAction]) -> None:
        packing = self.state.packing
        assert packing is not None
        for action in actions:
            for lane in lanes_given(action):
                self.joined += isinstance(action, AddLane)
                assert self.state.pool.is_current(lane.lease.worker, lane.lease.epoch)
                assert self.state.lanes_staying(lane.lease) <= packing.limit, "more lanes than a pack may have"
        if any(isinstance(action, AddLane) for action in actions):
            assert self.state.pool.first_idle() is None, "a lane joined a pack while a worker was free"
        self.require_alike(packing, actions)

    def require_alike(self, packing: Packing, actions: Sequence[AnyAction]) -> None:
        if packing.strategy != "plan":
            return
        for action in actions:
            if isinstance(action, Assign | AddLane):
                lease = lanes_given(action)[0].lease
                stages = [attempt.batch.stages[0] for attempt in self.state.attempts_under(lease)]
                groups = {packing.group(self.state.trials[stage.trials[0]].params) for stage in stages}
                assert len(groups) == 1, "lanes of two structures in one pack"

    def refuse(self) -> None:
        """Refuse a lease, or a lane that was to join one, that no worker has got yet."""
        unseen = [one for one in self.living() if not one.is_begun]
        if not unseen:
            return
        refused = self.chance.choice(unseen)
        whole = [one for one in self.living() if one.lease == refused.lease]
        is_whole = not refused.has_joined and not any(one.is_begun for one in whole)
        if is_whole or refused.has_joined:
            for one in whole if is_whole else [refused]:
                one.is_ended = True
            self.tell(WorkRefused(refused.lease, "others train it", lane=None if is_whole else refused.lane))

    def step(self) -> None:
        if self.chance.random() < 0.03:
            self.refuse()
        else:
            super().step()


@pytest.mark.parametrize("strategy", PACK_STRATEGIES)
@pytest.mark.parametrize("scheduler", SCHEDULERS)
@settings(max_examples=examples(12), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 250), save_every=st.sampled_from([None, 2]))
def test_whatever_happens_to_packs_the_state_is_whole_and_the_run_ends(
    scheduler: Scheduler, strategy: str, seed: int, steps: int, save_every: int | None
) -> None:
    def make() -> StudyState:
        state = packed_state(scheduler, 2 + seed % 4, space=TWO_WIDTHS, max_failures=seed % 3, save_every=save_every)
        assert state.packing is not None
        state.packing = msgspec.structs.replace(state.packing, strategy=strategy)
        return state

    world = PackedWorld(make, random.Random(seed), is_fickle=True)
    live_through(world, steps)
    assert all(trial.state is not TrialState.RUNNING for trial in world.state.trials)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize(("space", "searcher"), SEARCHES)
@settings(max_examples=examples(15), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 250), save_every=st.sampled_from([None, 2]))
def test_whatever_happens_packed_trials_have_the_values_of_trials_alone(
    space: Space, searcher: Searcher, scheduler: Scheduler, seed: int, steps: int, save_every: int | None
) -> None:
    is_forking = isinstance(scheduler, PBT)
    if is_forking and space is SHARED:  # of which PBT can perturb nothing
        space, searcher = FORKED, RandomSearch()

    def make() -> StudyState:
        config = {"max_failures": seed % 3, "save_every": save_every, "look_ahead": 0 if seed % 2 else 1_000}
        return packed_state(scheduler, 2 + seed % 4, space, searcher, **config)

    world = PackedWorld(make, random.Random(seed), own_ends=0.0 if is_forking else OWN_ENDS)
    live_through(world, steps)
    for trial in world.state.trials:
        assert trial.state not in (TrialState.RUNNING, TrialState.WAITING), trial
        if is_forking and trial.state is TrialState.COMPLETED:
            assert trial.value == HISTORIES.value(trial.id, trial.params, 9), trial
        elif not is_forking:
            require_the_truth(trial, world.state.config)


def test_worlds_of_packs_see_lanes_that_join() -> None:
    def make() -> StudyState:
        return packed_state(ASHA(max_resource=9), 4)

    worlds = [PackedWorld(make, random.Random(seed)) for seed in range(5)]
    for world in worlds:
        live_through(world, 200)
    assert min(world.joined for world in worlds) > 0
