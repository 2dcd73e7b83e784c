"""Several studies on one pool of virtual workers: shares by weight at each instant, newcomers, and nothing lost."""

from __future__ import annotations

import pytest

from asyncsearch.engine.invariants import check
from asyncsearch.errors import UsageError
from asyncsearch.schedulers import ASHA, FIFO, SHA
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.simulate import Delays, SharedSimulation, Simulation
from asyncsearch.simulate.workloads import Curves
from tests.engine.tools import make_state, results

DELAYS = Delays(start_s=1.0, commit_s=0.1)


def pool_of(workers: int = 60, trials: int = 600, **options: float) -> SharedSimulation:
    pool = SharedSimulation(workers, **options)
    for name, weight in (("a", 1), ("b", 2), ("c", 3)):
        state = make_state(ASHA(max_resource=27), seed=int(weight))
        pool.submit(name, state, Curves(2, spread=0.5), num_trials=trials, weight=weight, delays=DELAYS)
    return pool


def test_three_weights_hold_ten_twenty_and_thirty_while_all_have_demand() -> None:
    pool = pool_of()
    pool.run()
    end_s = next(one.at_s for one in pool.holdings[1:] if min(one.needed.values()) < 60)
    assert end_s > 50.0
    held = {tuple(sorted(one.held.items())) for one in pool.holdings if one.at_s < end_s}
    assert held == {(("a", 10), ("b", 20), ("c", 30))}


def test_never_more_workers_run_than_there_are_and_each_study_ends() -> None:
    pool = pool_of(7, 40)
    pool.run()
    assert max(sum(one.held.values()) for one in pool.holdings) <= 7
    for study in pool.studies.values():
        assert study.end is not None
        assert study.end.is_complete
        check(study.state)


def test_a_newcomer_has_its_share_once_a_stage_of_each_worker_has_ended() -> None:
    pool = SharedSimulation(60)
    pool.submit(
        "a", make_state(FIFO(max_resource=9), can_save=True), Curves(1, unit_s=3.0), num_trials=900, delays=DELAYS
    )
    late = make_state(FIFO(max_resource=9))
    pool.submit("b", late, Curves(2, unit_s=3.0), num_trials=900, at_s=100.0, delays=DELAYS)
    pool.run(300.0)
    first = next(one.at_s for one in pool.holdings if one.held.get("b", 0) == 30)
    assert 100.0 < first < 100.0 + 27.0 + 2.0
    last = pool.holdings[-1].held
    assert last == {"a": 30, "b": 30}


@pytest.mark.parametrize("scheduler", [FIFO(max_resource=4), SHA(max_resource=9)])
def test_a_study_that_shares_has_the_results_that_it_has_alone(scheduler: Scheduler) -> None:
    alone = make_state(scheduler)
    Simulation(alone, Curves(seed=3), workers=4).run(27)
    shared = make_state(scheduler)
    pool = SharedSimulation(4, turn_s=2.0)
    pool.submit("a", shared, Curves(seed=3), num_trials=27, delays=DELAYS)
    pool.submit("b", make_state(ASHA(max_resource=9)), Curves(seed=4), num_trials=50, delays=DELAYS)
    pool.run()
    assert results(shared) == results(alone)


def test_two_studies_of_one_name_are_refused() -> None:
    pool = pool_of()
    with pytest.raises(UsageError, match="'a' already"):
        pool.submit("a", make_state(), Curves(), num_trials=1)


def test_turns_shorter_than_the_start_of_a_worker_are_not_all_starts() -> None:
    pool = SharedSimulation(1, turn_s=0.2)
    for name in ("a", "b"):
        pool.submit(name, make_state(FIFO(max_resource=2)), Curves(seed=1), num_trials=6, delays=DELAYS)
    pool.run(200.0)
    assert all(study.end is not None for study in pool.studies.values())
