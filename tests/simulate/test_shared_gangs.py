"""Studies of gangs and plain ones on one pool of virtual workers: fair over time, no worker twice, all end."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.engine.invariants import check
from asyncsearch.engine.state import StudyState
from asyncsearch.ids import WorkerId
from asyncsearch.schedulers import ASHA, FIFO, SHA
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.simulate import Delays, Faults, Loss, SharedSimulation, Simulation, TrainingModel
from asyncsearch.simulate.workloads import Curves
from asyncsearch.sizing.autoscale import Autoscale
from asyncsearch.sizing.gangs import Gang
from asyncsearch.trial import TrialState
from tests.engine.tools import make_state, results
from tests.examples import examples
from tests.fair.world import jain

DELAYS = Delays(start_s=1.0, commit_s=0.1)
HOUR_S = 3600.0


def state_of(gang: Gang | None, scheduler: Scheduler | None = None, **config: Any) -> StudyState:
    state = make_state(scheduler or ASHA(max_resource=9), can_save=True, **config)
    state.gang = gang
    return state


def pool_of(workers: int, trials: int, unit_s: float = 5.0, **gangs: int | Gang) -> SharedSimulation:
    """Return a pool of studies, each with a number of workers for each trial."""
    pool = SharedSimulation(workers)
    for seed, (name, gang) in enumerate(gangs.items()):
        state = state_of(gang if isinstance(gang, Gang) else Gang(gang) if gang > 1 else None)
        pool.submit(name, state, Curves(seed, unit_s=unit_s, spread=0.3), num_trials=trials, delays=DELAYS)
    return pool


def require_ended(pool: SharedSimulation) -> None:
    """Require that every study came to its end, and that never more workers ran than there are."""
    assert max(sum(one.held.values()) for one in pool.holdings) <= pool.workers
    for study in pool.studies.values():
        assert study.end is not None
        assert study.end.is_complete
        check(study.state)


@pytest.mark.parametrize(
    ("workers", "gangs"),
    [
        (4, {"two": 2, "three": 3}),
        (4, {"plain": 1, "two": 2}),
        (4, {"plain": 1, "three": 3}),
        (7, {"plain": 1, "four": 4, "some": Gang(4, min_size=2)}),
    ],
)
def test_worker_seconds_of_gangs_and_plain_studies_are_fair(workers: int, gangs: dict[str, Any]) -> None:
    pool = pool_of(workers, 3_000, **gangs)
    pool.run(HOUR_S)
    held_s = {name: pool.held_s(name, 0.0, HOUR_S) for name in gangs}
    assert jain(held_s.values()) >= 0.98
    used, held = sum(study.busy_s for study in pool.studies.values()), sum(held_s.values())
    assert used > 0.95 * held, "workers that are held train"


@pytest.mark.parametrize("gangs", [{"two": 2, "three": 3}, {"plain": 1, "four": 4}, {"a": 3, "b": 3, "c": 1}])
def test_studies_of_unlike_gangs_on_four_workers_all_end(gangs: dict[str, int]) -> None:
    pool = pool_of(4, 20, **gangs)
    pool.run()
    require_ended(pool)


@pytest.mark.parametrize("scheduler", [FIFO(max_resource=4), SHA(max_resource=9)])
def test_a_study_of_gangs_that_shares_has_the_results_that_it_has_alone(scheduler: Scheduler) -> None:
    alone, shared = state_of(Gang(2), scheduler), state_of(Gang(2), scheduler)
    Simulation(alone, Curves(seed=3), workers=4).run(18)
    pool = SharedSimulation(4, turn_s=2.0)
    pool.submit("a", shared, Curves(seed=3), num_trials=18, delays=DELAYS)
    pool.submit("b", state_of(None), Curves(seed=4), num_trials=50, delays=DELAYS)
    pool.run()
    assert results(shared) == results(alone)
    assert sum(trial.losses for trial in shared.trials) == 0


def test_a_newcomer_of_gangs_has_them_once_the_stages_of_others_have_ended() -> None:
    pool = SharedSimulation(8)
    plain = state_of(None, FIFO(max_resource=9))
    pool.submit("plain", plain, Curves(1, unit_s=3.0), num_trials=900, delays=DELAYS)
    pool.submit(
        "late", state_of(Gang(4), FIFO(max_resource=9)), Curves(2, unit_s=3.0), num_trials=90, at_s=100.0, delays=DELAYS
    )
    pool.run(200.0)
    first = next(one.at_s for one in pool.holdings if one.held.get("late", 0) == 4)
    assert 100.0 < first < 100.0 + 27.0 + 2.0
    assert pool.holdings[-1].held == {"plain": 4, "late": 4}


def test_long_stages_of_gangs_come_back_within_patience_and_one_unit() -> None:
    pool = SharedSimulation(4, patience_s=60.0)
    long = state_of(Gang(2), FIFO(max_resource=1000))
    pool.submit("long", long, Curves(1, unit_s=10.0), num_trials=8, delays=DELAYS)
    pool.submit("late", state_of(Gang(2)), Curves(2, unit_s=10.0), num_trials=90, at_s=100.0, delays=DELAYS)
    pool.run(400.0)
    first = next(one.at_s for one in pool.holdings if one.held.get("late", 0) == 2)
    assert 160.0 <= first < 100.0 + 60.0 + 10.0 + 2.0
    assert all(trial.trained == trial.resource for trial in long.trials), "no unit is trained twice"
    assert sum(trial.losses for trial in long.trials) == 0


def test_a_study_whose_rungs_run_dry_gives_its_gangs_workers_to_others() -> None:
    pool = SharedSimulation(6)
    pool.submit("short", state_of(Gang(3), FIFO(max_resource=4)), Curves(1), num_trials=1, delays=DELAYS)
    pool.submit("plain", state_of(None, FIFO(max_resource=50)), Curves(2), num_trials=90, delays=DELAYS)
    pool.run(200.0)
    assert pool.studies["short"].end is not None
    assert pool.holdings[-1].held.get("plain") == 6


def test_a_lost_worker_costs_its_gang_and_no_other_study() -> None:
    pool = SharedSimulation(4)
    faults = Faults(losses=[Loss(WorkerId(number), at_s=12.5, down_s=20.0) for number in range(4)])
    hit, other = state_of(Gang(2), FIFO(max_resource=9)), state_of(None, FIFO(max_resource=9))
    pool.submit("hit", hit, Curves(1, unit_s=2.0), num_trials=6, delays=DELAYS, faults=faults)
    pool.submit("other", other, Curves(2, unit_s=2.0), num_trials=12, delays=DELAYS)
    pool.run()
    require_ended(pool)
    assert sum(trial.losses for trial in hit.trials) == 1
    assert sum(trial.losses for trial in other.trials) == 0


def test_larger_gangs_take_what_their_study_has_and_return_it_after_a_unit() -> None:
    pool = SharedSimulation(4, patience_s=1e6)
    scaled = state_of(Gang(1, autoscale=Autoscale(0.7)), FIFO(max_resource=60))
    curve = TrainingModel(gang_speedup={1: 1.0, 2: 1.9, 4: 3.6})
    pool.submit("scaled", scaled, Curves(1, unit_s=10.0), num_trials=5, delays=DELAYS, training=curve)
    plain = state_of(None, FIFO(max_resource=9))
    pool.submit("plain", plain, Curves(2, unit_s=10.0), num_trials=400, at_s=650.0, delays=DELAYS)
    pool.run(640.0)
    assert [attempt.size for attempt in scaled.attempts.values()] == [4]
    pool.run(665.0)
    assert [attempt.size for attempt in scaled.attempts.values()] == [1]
    assert pool.holdings[-1].held == {"scaled": 1, "plain": 3}
    assert scaled.trials[4].trained == scaled.trials[4].resource
    pool.run()
    require_ended(pool)


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(2, 9), st.integers(0, 100_000))
def test_gangs_that_share_a_pool_all_end_and_no_worker_is_in_two_places(workers: int, seed: int) -> None:
    draw = random.Random(seed)
    pool = SharedSimulation(workers, turn_s=draw.choice([1.0, 30.0]), patience_s=draw.choice([5.0, 60.0]))
    for number in range(draw.randint(1, 4)):
        size = draw.randint(1, workers)
        scale = draw.choice([None, Autoscale(0.5)])
        gang = Gang(size, draw.choice([None, draw.randint(1, size)]), scale) if size > 1 or scale else None
        losses = [Loss(WorkerId(draw.randrange(workers)), draw.uniform(0.0, 60.0)) for _ in range(draw.randint(0, 3))]
        pool.submit(
            str(number),
            state_of(gang, draw.choice([FIFO(max_resource=4), ASHA(max_resource=9), SHA(max_resource=9)])),
            Curves(number, spread=0.5),
            num_trials=draw.randint(1, 9),
            at_s=draw.choice([0.0, draw.uniform(0.0, 40.0)]),
            weight=draw.choice([1, 3]),
            priority=draw.choice([0, 0, 1]),
            max_workers=draw.choice([None, max(size, 2)]),
            delays=DELAYS,
            faults=Faults(losses=losses, max_losses=9),
        )
    pool.run(100_000.0)
    require_ended(pool)
    for study in pool.studies.values():
        assert all(trial.state is not TrialState.FAILED for trial in study.state.trials)
