"""Searchers find better configurations than random search with the same budget: one-sided tests at the 5 % level."""

from __future__ import annotations

import itertools
import math

import pytest

from asyncsearch import ASHA, FIFO, OptunaSearch, RandomSearch, SobolSearch
from asyncsearch.ids import TrialId
from asyncsearch.schedulers import Scheduler
from asyncsearch.searchers import Searcher
from asyncsearch.simulate import NoisyQuadratic, simulate


def searched(searcher: Searcher, scheduler: Scheduler, *, trials: int, seeds: int) -> list[float]:
    """Return the logarithm of the best loss of fully trained trials, for each seed."""
    found = []
    for seed in range(seeds):
        workload = NoisyQuadratic(dimensions=3)
        result = simulate(workload, searcher=searcher, scheduler=scheduler, workers=4, num_trials=trials, seed=seed)
        ended = [trial.value for trial in result.trials if trial.resource == scheduler.max_resource]
        found.append(math.log(min(value for value in ended if value is not None)))
    return found


def drawn(searcher: Searcher, *, points: int, groups: int, seeds: int) -> list[float]:
    """Return the logarithm of the best loss of the first proposals, as the mean over the seeds of each group."""
    workload, found = NoisyQuadratic(dimensions=2), []
    for group in range(groups):
        states = [searcher.begin(workload.space, group * seeds + seed) for seed in range(seeds)]
        best = [min(workload.value(TrialId(i), state.propose(i) or {}, 9) for i in range(points)) for state in states]
        found.append(sum(map(math.log, best)) / seeds)
    return found


def p_value(better: list[float], worse: list[float]) -> float:
    """Return how likely it is that swapping the two within each seed at random leaves as large a difference.

    Fisher's randomisation test for pairs, exact.
    """
    differences = [one - other for one, other in zip(worse, better, strict=True)]
    observed = sum(differences)
    signs = itertools.product((1, -1), repeat=len(differences))
    as_large = sum(sum(s * d for s, d in zip(sign, differences, strict=True)) >= observed - 1e-12 for sign in signs)
    return as_large / (1 << len(differences))


def test_the_test_itself_says_no_where_there_is_no_difference() -> None:
    assert p_value([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == 1.0
    assert p_value([0.0] * 5, [1.0] * 5) == 1 / 32


@pytest.mark.parametrize("scheduler", [FIFO(max_resource=9), ASHA(max_resource=27)], ids=str)
def test_tpe_finds_better_than_random(scheduler: Scheduler) -> None:
    pytest.importorskip("optuna")
    found = [searched(searcher, scheduler, trials=60, seeds=6) for searcher in (OptunaSearch(), RandomSearch())]
    assert p_value(*found) < 0.05


def test_sobol_points_find_better_than_random() -> None:
    pytest.importorskip("scipy")
    found = [drawn(searcher, points=32, groups=12, seeds=16) for searcher in (SobolSearch(), RandomSearch())]
    assert p_value(*found) < 0.05
