"""Every method finds better than random search does in the same time on the same workers.

By an exact sign test over seeds, one-sided at the 5 % level. The workload's optimum is known, and a search is judged by
the best value that was reported when its time was up.
"""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import asyncsearch
from asyncsearch.schedulers import ASHA, FIFO, SHA, Scheduler
from asyncsearch.searchers import RandomSearch, Searcher
from asyncsearch.simulate import NoisyQuadratic, TrainingModel, Until, simulate
from tests.shares import first, names

R, WORKERS, SEEDS = 64, 4, 20
EARLY_IS_RIGHT = NoisyQuadratic(dimensions=2, gradient_noise=1e-4)
SCHEDULES_WIN = NoisyQuadratic(dimensions=0, gradient_noise=1.0)


class Method(NamedTuple):
    scheduler: Callable[[], Scheduler]
    searcher: Callable[[], Searcher] = RandomSearch
    workload: NoisyQuadratic = EARLY_IS_RIGHT
    trainings: int = 6
    """How many whole trainings each worker has the time for."""
    seeds: int = SEEDS
    report_every: int | None = None
    """What stops trials must hear of them on their way; what pauses them hears of them there."""


def public(name: str, **options: Any) -> Any:
    return getattr(asyncsearch, name)(**options)


METHODS = {
    "ASHA": Method(lambda: ASHA(max_resource=R, reduction_factor=4)),
    "ASHA, stopping": Method(lambda: ASHA(max_resource=R, reduction_factor=4, variant="stopping"), report_every=1),
    "SHA": Method(lambda: SHA(max_resource=R, reduction_factor=4, bracket_size=64)),
    "Hyperband": Method(lambda: public("Hyperband", max_resource=R, reduction_factor=4)),
    "Hyperband, synchronous": Method(
        lambda: public("Hyperband", max_resource=R, reduction_factor=4, variant="synchronous")
    ),
    "median stopping": Method(lambda: public("MedianStopping", max_resource=R), report_every=1),
    "PBT": Method(
        lambda: public("PBT", max_resource=R, perturbation_interval=4, population=20), workload=SCHEDULES_WIN
    ),
    "PBT, synchronous": Method(
        lambda: public("PBT", max_resource=R, perturbation_interval=4, population=20, synchronous=True),
        workload=SCHEDULES_WIN,
    ),
}
LEARNING = {
    "TPE": Method(lambda: FIFO(max_resource=R), lambda: public("OptunaSearch", sampler="tpe"), seeds=12),
    "ASHA with TPE": Method(
        lambda: ASHA(max_resource=R, reduction_factor=4),
        lambda: public("OptunaSearch", sampler="tpe"),
        trainings=2,
        seeds=12,
    ),
}


def wins_needed(pairs: int) -> int:
    """Return the least number of wins that chance brings at most once in twenty times."""
    tail = 0.0
    for wins in range(pairs, -1, -1):
        tail += math.comb(pairs, wins) / 2**pairs
        if tail > 0.05:
            return wins + 1
    return 0


def best(method: Method, seed: int) -> float:
    until = float(R * method.trainings)
    result = simulate(
        method.workload,
        scheduler=method.scheduler(),
        searcher=method.searcher(),
        workers=WORKERS,
        until=Until(seconds=until),
        seed=seed,
        training=TrainingModel(report_every=method.report_every),
    )
    found = result.value_at(until)
    assert found is not None
    return found


@functools.cache
def best_by_chance(workload: NoisyQuadratic, trainings: int, seed: int) -> float:
    # Another seed than the method's: with the same one both would see the same configurations.
    method = Method(lambda: FIFO(max_resource=R), workload=workload, trainings=trainings)
    return best(method, seed + 1_000)


def wins(method: Method) -> int:
    return sum(
        best(method, seed) < best_by_chance(method.workload, method.trainings, seed) for seed in range(method.seeds)
    )


def test_the_sign_test_needs_fifteen_of_twenty() -> None:
    assert [wins_needed(pairs) for pairs in (5, 12, 20)] == [5, 10, 15]


@pytest.mark.parametrize("name", names(tuple(METHODS), ["ASHA", "Hyperband", "median stopping", "PBT"]))
def test_a_method_beats_random_search(name: str) -> None:
    method = METHODS[name]
    assert wins(method) >= wins_needed(method.seeds)


def test_the_schedule_that_pbt_finds_is_better_than_the_best_constant() -> None:
    lr, constant = SCHEDULES_WIN.best_constant(R)
    optimum = SCHEDULES_WIN.optimum(R)
    found = [best(METHODS["PBT"], seed) for seed in range(5)]
    assert all(optimum < value < constant for value in found), lr
    assert min(found) < optimum + (constant - optimum) / 2


def test_random_search_does_not_beat_itself() -> None:
    method = Method(lambda: FIFO(max_resource=R))
    assert 5 < wins(method) < wins_needed(method.seeds)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("optuna") is None, reason="optuna is not installed")
@pytest.mark.parametrize("name", first(tuple(LEARNING)))
def test_a_searcher_that_learns_beats_random_search(name: str) -> None:
    method = LEARNING[name]
    assert wins(method) >= wins_needed(method.seeds)
