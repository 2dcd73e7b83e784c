"""Laws that hold after every event, whatever comes in whatever order: losses, duplicates, stale leases, restarts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.state import StudyState
from asyncsearch.schedulers import ASHA, FIFO, SHA, Hyperband, MedianStopping
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.searchers.random import RandomSearch
from asyncsearch.sequences import exponential, multistep, warmup
from asyncsearch.space import Space, choice
from asyncsearch.testing.random_cluster import RandomCluster
from asyncsearch.testing.recording import HISTORIES
from asyncsearch.trial import Trial, TrialState
from tests.engine.tools import live_through, make_state
from tests.examples import examples

SCHEDULERS = [
    pytest.param(FIFO(max_resource=3), id="fifo"),
    pytest.param(SHA(max_resource=9), id="sha"),
    pytest.param(SHA(max_resource=9, bracket_size=4), id="sha in brackets"),
    pytest.param(ASHA(max_resource=9), id="asha"),
    pytest.param(ASHA(max_resource=9, finish_best=True), id="asha that finishes its best"),
    pytest.param(ASHA(max_resource=9, variant="stopping"), id="asha by stopping"),
    pytest.param(ASHA(reduction_factor=2), id="asha without end"),
    pytest.param(Hyperband(max_resource=9), id="hyperband by shares"),
    pytest.param(Hyperband(max_resource=4, reduction_factor=2, variant="rounds"), id="hyperband in rounds"),
    pytest.param(Hyperband(max_resource=4, reduction_factor=2, variant="synchronous"), id="hyperband in step"),
    pytest.param(MedianStopping(max_resource=5, min_trials=2, interval=1), id="median"),
]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 200), save_every=st.sampled_from([None, 1, 2]))
def test_whatever_order_of_events_the_state_is_whole_and_the_run_ends(
    scheduler: Scheduler, seed: int, steps: int, save_every: int | None
) -> None:
    def make() -> StudyState:
        return make_state(scheduler, max_failures=seed % 3, save_every=save_every)

    world = RandomCluster(make, random.Random(seed), is_fickle=True)
    live_through(world, steps)
    assert all(trial.state is not TrialState.RUNNING for trial in world.state.trials)


SHARED = Space(
    {
        "lr": choice(
            multistep(0.1, milestones=choice([4, 8], [4, 6], [6, 8])),
            warmup(2, multistep(0.1, milestones=choice([4, 8], [6, 8]))),
            exponential(0.1, gamma=0.9),
        )
    }
)
TWINS = Space({"lr": multistep(0.1, milestones=choice([4], [6]))})
"""Few configurations, each drawn many times: trials that come later ask for what others train or trained."""
SEARCHES = [pytest.param(SHARED, GridSearch(), id="grid"), pytest.param(TWINS, RandomSearch(), id="twins")]
SHARING_SCHEDULERS = [
    pytest.param(FIFO(max_resource=9), id="fifo"),
    pytest.param(SHA(max_resource=9), id="sha"),
    pytest.param(ASHA(max_resource=9), id="asha"),
    pytest.param(ASHA(max_resource=9, variant="stopping"), id="asha by stopping"),
    pytest.param(Hyperband(max_resource=9, brackets=2), id="hyperband by shares"),
    pytest.param(Hyperband(max_resource=9, brackets=2, variant="synchronous"), id="hyperband in step"),
    pytest.param(MedianStopping(max_resource=9, min_trials=2, interval=1), id="median"),
]
OWN_ENDS = 0.06
"""Share of the units after which the user's function returns by itself."""
SILENCES = 0.4
"""Share of the units after which nothing is reported."""


def own_end(trial: Trial) -> int | None:
    return next((r for r in range(1, 9) if HISTORIES.value(trial.id, trial.params, r) < OWN_ENDS), None)


def require_the_truth(trial: Trial, config: EngineConfig, silences: float = 0.0) -> None:
    """A trial has the value that it would have had alone, and stands where its state says."""
    if trial.value_resource:
        assert trial.value == HISTORIES.value(trial.id, trial.params, trial.value_resource), trial
    assert trial.value_resource == trial.resource, trial
    end = own_end(trial) or trial.target
    assert end is not None
    if trial.state is TrialState.COMPLETED:
        assert trial.resource == end or (silences and end != trial.target), trial
    if trial.state is TrialState.PAUSED:
        assert trial.resource == trial.target, trial
    if trial.state is TrialState.FAILED and not (silences and end != trial.target):
        assert trial.failures > config.max_failures or trial.losses > config.max_losses, trial


@pytest.mark.parametrize("look_ahead", [0, 1_000])
@pytest.mark.parametrize("scheduler", SHARING_SCHEDULERS)
@pytest.mark.parametrize(("space", "searcher"), SEARCHES)
@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 250), save_every=st.sampled_from([None, 2]))
def test_whatever_happens_sharing_trials_have_the_values_of_trials_alone(
    space: Space,
    searcher: Searcher,
    scheduler: Scheduler,
    look_ahead: int,
    seed: int,
    steps: int,
    save_every: int | None,
) -> None:
    def make() -> StudyState:
        failures = seed % 3
        return make_state(
            scheduler, searcher, space, max_failures=failures, save_every=save_every, look_ahead=look_ahead
        )

    world = RandomCluster(make, random.Random(seed), own_ends=OWN_ENDS)
    live_through(world, steps)
    for trial in world.state.trials:
        require_the_truth(trial, world.state.config)
        if scheduler.describe() == FIFO(max_resource=9).describe():
            assert trial.state in (TrialState.COMPLETED, TrialState.FAILED), trial
        assert trial.state not in (TrialState.RUNNING, TrialState.WAITING), trial


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("scheduler", SHARING_SCHEDULERS)
@pytest.mark.parametrize(("space", "searcher"), SEARCHES)
@settings(max_examples=examples(20), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 250), save_every=st.sampled_from([None, 2]))
def test_whatever_happens_a_target_without_a_report_is_evaluated(
    space: Space, searcher: Searcher, scheduler: Scheduler, share: bool, seed: int, steps: int, save_every: int | None
) -> None:
    config = {"max_failures": seed % 3, "save_every": save_every, "look_ahead": 1_000 if share else 0, "share": share}

    def make() -> StudyState:
        return make_state(scheduler, searcher, space, can_evaluate=True, **config)

    world = RandomCluster(make, random.Random(seed), own_ends=OWN_ENDS, silences=SILENCES)
    live_through(world, steps)
    for trial in world.state.trials:
        require_the_truth(trial, world.state.config, SILENCES)
        assert trial.state not in (TrialState.RUNNING, TrialState.WAITING), trial
