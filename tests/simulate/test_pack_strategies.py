"""Which trials to train together, on the terms of the paper on packed training: its Hyperband, and alike ones gain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from asyncsearch.actions import AnyAction, lanes_given
from asyncsearch.events import AnyEvent, Reported
from asyncsearch.schedulers import Hyperband
from asyncsearch.simulate import Curves, Simulation, SimulationResult, TrainingModel, simulate
from asyncsearch.sizing.pack_strategies import PACK_STRATEGIES
from asyncsearch.space import Space, choice, loguniform, uniform
from tests.engine.tools import packed_state

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
    """Return the paper's Hyperband with R = 81 and eta = 3 on one worker. None means unpacked."""
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


STRUCTURES = Space.of(
    {
        "lr": loguniform(0.003, 0.1),
        "kind": choice("mlp", "cnn"),
        "batch_size": choice(32, 128),
        "update": choice("sgd", "adam"),
    }
)
UNIT_S = {"mlp": {1: 1.0, 2: 2.1, 4: 2.3, 8: 2.8}, "cnn": {1: 3.0, 2: 4.6, 4: 6.0, 8: 8.9}}
"""Seconds of a unit of so many alike trainings, as docs/packing_figures.md has them of a processor, where others train
one after another. A unit with batches of 128 has a fourth of the steps."""


class DeviceTime:
    """Watches a search on one worker, and adds up what each unit of its packs takes."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._built: dict[tuple[Any, int], tuple[Any, ...]] = {}
        self._round_at, self._round = 0.0, Counter[tuple[Any, ...]]()

    def __call__(self, now: float, event: AnyEvent, actions: Sequence[AnyAction]) -> None:
        if isinstance(event, Reported):
            if now > self._round_at:
                self.end_round(now)
            self._round[self._built[event.lease, event.lane]] += 1
        for given in [one for action in actions for one in lanes_given(action)]:
            hp = given.lane.stages[0].params
            self._built[given.lease, given.number] = (hp["kind"], hp["batch_size"], hp["update"])

    def end_round(self, now: float) -> None:
        for (kind, batch_size, _), lanes in self._round.items():
            known = UNIT_S[kind]
            self.seconds += 32 / batch_size * float(np.interp(lanes, list(known), list(known.values())))
        self._round_at, self._round = now, Counter()


@cache
def device_s(strategy: str, seed: int) -> float:
    """Return the device time of synchronous Hyperband, which trains the same trials to the same places each time."""
    state = packed_state(
        Hyperband(max_resource=27, variant="synchronous"), pack=8, space=STRUCTURES, seed=seed, strategy=strategy
    )
    time = DeviceTime()
    end = Simulation(state, workers=1, workload=Curves(seed=seed), watch=time).run(98)
    assert end is not None
    assert len(state.trials) == 98
    time.end_round(0.0)
    return time.seconds


@pytest.mark.parametrize("strategy", [name for name in PACK_STRATEGIES if name != "plan"])
def test_plan_takes_less_device_time_than_the_papers_on_unlike_structures(strategy: str) -> None:
    assert sum(device_s("plan", seed) for seed in (1, 2)) < 0.95 * sum(device_s(strategy, seed) for seed in (1, 2))
