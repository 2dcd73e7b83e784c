"""Which trials to train together, on the terms of the paper on packed training: its Hyperband, and alike ones gain."""

from __future__ import annotations

from functools import cache
from statistics import mean
from typing import Any

import pytest

from asyncsearch.plan.pack_strategies import PACK_STRATEGIES
from asyncsearch.schedulers import Hyperband
from asyncsearch.simulate import Curves, SimulationResult, TrainingModel, simulate
from asyncsearch.space import Space, choice, loguniform, uniform

SPACE = Space.of(
    {
        "lr": loguniform(0.003, 0.1),
        "momentum": uniform(0.5, 0.95),
        "batch_size": choice(32, 64, 128),
        "optimizer": choice("sgd", "adam"),
    }
)
CURVE = {2: 1.6, 4: 2.6, 8: 4.0}
"""What alike trials gain; others, of another batch size or optimizer, gain nothing by each other."""


@cache
def searched(strategy: str | None, gain: bool = True, seed: int = 1) -> SimulationResult:
    """Return the paper's Hyperband with R = 81 and eta = 3 on one worker; None: unpacked."""
    pack: dict[str, Any] = {} if strategy is None else {"pack": 8, "pack_opt": strategy}
    found = simulate(
        Curves(seed=seed),
        seed=seed,
        scheduler=Hyperband(max_resource=81, reduction_factor=3, variant="synchronous"),
        space=SPACE,
        num_trials=143,
        training=TrainingModel(pack_speedup={"": CURVE if gain else {8: 1.0}}),
        **pack,
    )
    assert found.is_complete
    return found


@pytest.mark.parametrize("strategy", PACK_STRATEGIES)
def test_whatever_is_packed_the_same_trials_train_to_the_same_places(strategy: str) -> None:
    def places(found: SimulationResult) -> list[tuple[int, float | str | None]]:
        return [(trial.resource, trial.value) for trial in found.trials]

    assert places(searched(strategy)) == places(searched(None))


@pytest.mark.parametrize("strategy", PACK_STRATEGIES)
def test_no_strategy_takes_longer_than_training_one_after_another(strategy: str) -> None:
    assert searched(strategy).wall_s <= searched(None).wall_s * (1 + 1e-9)
    assert searched(strategy, gain=False).wall_s == pytest.approx(searched(None).wall_s)


@pytest.mark.parametrize("strategy", [name for name in PACK_STRATEGIES if name != "plan"])
def test_packs_of_one_structure_beat_the_strategies_of_the_paper(strategy: str) -> None:
    """In the mean of some searches: in one of them, what is left over at its end decides."""

    def gain(strategy: str) -> float:
        return mean(searched(None, seed=seed).wall_s / searched(strategy, seed=seed).wall_s for seed in range(1, 6))

    assert gain("plan") > 1.02 * gain(strategy)
