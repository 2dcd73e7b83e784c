"""How searches scale with the number of workers."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from asyncsearch.schedulers import ASHA, SHA
from asyncsearch.simulate import (
    Chance,
    Curves,
    Delays,
    Faults,
    NoisyQuadratic,
    SimulationResult,
    TrainingModel,
    Until,
    simulate,
)
from tests.shares import seeds, takes_long

R, FACTOR = 64, 4
HALVING = ASHA(max_resource=R, reduction_factor=FACTOR)
WORKLOAD = NoisyQuadratic(dimensions=2, gradient_noise=1e-4)


def to_target(excess: float, workers: int, seed: int) -> SimulationResult:
    target = WORKLOAD.best_constant(256)[1] + excess
    halving = ASHA(min_resource=4, max_resource=256, reduction_factor=FACTOR)
    return simulate(WORKLOAD, scheduler=halving, workers=workers, until=Until(target=target), seed=seed)


@pytest.mark.parametrize(
    ("workers", "excess", "seeds"),
    [
        (25, 0.0085, range(20)),
        pytest.param(100, 0.002, range(8), marks=takes_long),
        pytest.param(500, 0.0006, range(4, 9), marks=[pytest.mark.slow, takes_long]),
    ],
)
def test_asha_scales_within_a_tenth_of_linear_at_four_trials_a_worker(
    workers: int, excess: float, seeds: range
) -> None:
    alone = [to_target(excess, 1, seed) for seed in seeds]
    together = [to_target(excess, workers, seed) for seed in seeds]
    a_worker = statistics.fmean(len(result.trials) for result in alone) / workers
    assert 4 < a_worker < 6
    speed_up = statistics.fmean(r.wall_s for r in alone) / statistics.fmean(r.wall_s for r in together)
    assert speed_up > 0.9 * workers


def until_all_are_begun(scheduler: Any, workers: int) -> float:
    """Return how much of the workers' time was training until the last of four configurations for each had begun."""
    options: dict[str, Any] = {
        "scheduler": scheduler,
        "workers": workers,
        "faults": Faults(chance=Chance(spread=0.5)),
        "delays": Delays(commit_s=0.02, message_s=0.005),
        "training": TrainingModel(report_every=None),
    }
    whole = simulate(Curves(seed=1), num_trials=4 * workers, **options)
    began = [trial.started_s for trial in whole.trials if trial.started_s is not None]
    cut = simulate(Curves(seed=1), num_trials=4 * workers, until=Until(seconds=max(began)), **options)
    return cut.busy_share


@pytest.mark.parametrize("workers", [25, 100, pytest.param(500, marks=takes_long)])
def test_no_worker_of_asha_idles_while_configurations_are_left_to_begin(workers: int) -> None:
    assert until_all_are_begun(HALVING, workers) > 0.9


def test_stragglers_delay_synchronous_halving_more_than_asha() -> None:
    # Figure 7b of the ASHA paper at its right end: high variance, lost work.
    def first(scheduler: Any, seed: int) -> float:
        found = simulate(
            Curves(seed=seed),
            scheduler=scheduler,
            workers=25,
            until=Until(completed=1),
            faults=Faults(chance=Chance(spread=1.67, drop=0.003, seed=seed), max_losses=10**6),
            training=TrainingModel(restarts=True, report_every=None),
        )
        return found.wall_s

    waits = [first(SHA(max_resource=256, reduction_factor=4, bracket_size=256), seed) for seed in seeds(6, 3)]
    goes_on = [first(ASHA(max_resource=256, reduction_factor=4), seed) for seed in seeds(6, 3)]
    assert statistics.fmean(waits) > 1.15 * statistics.fmean(goes_on)
