"""A trainer of a pack draws the random numbers that it draws alone, whichever generator of the process it takes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.packing.unit_generators import seeded_states, states
from asyncsearch.trainers.torch.packs.units import PackedTrainers
from tests.packing.alone import difference
from tests.packing.test_torch_units import Blobs, both, trainer, unit_alone, values

nn: Any = torch.nn
RATES = [[{"lr": rate}] for rate in (0.1, 0.2)]


class Skipping(nn.Module):  # type: ignore[misc]
    """Leaves a layer out at random, as networks of stochastic depth do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x: Any) -> Any:
        skips = self.training and random.random() < 0.3
        return self.last(x if skips else torch.tanh(self.inner(x)))


class ByPython(Blobs):
    def model(self, hp: Mapping[str, Any]) -> Any:
        return Skipping().double()


class MixingUp(Blobs):
    """Mixes samples by a share that numpy draws."""

    def loss(self, model: Any, batch: Any) -> Any:
        x, y = batch
        share = np.random.beta(0.4, 0.4)  # noqa: NPY002
        mixed = share * x + (1 - share) * x.flip(0)
        return nn.functional.cross_entropy(model(mixed), y)


@pytest.mark.parametrize("kind", [ByPython, MixingUp])
def test_models_and_losses_that_draw_outside_torch_draw_as_they_do_alone(kind: type[Any], tmp_path: Path) -> None:
    assert both(kind, RATES, tmp_path) < 1e-12


def test_that_a_model_draws_outside_torch_is_said() -> None:
    together = PackedTrainers([trainer(ByPython, *each) for each in RATES])
    together.train()
    assert "its model or loss draws from the generator of Python or of numpy" in together.describe()[0]


class Sampling(Blobs):
    """Its metrics are those of a sample that is drawn."""

    def metrics(self, model: Any, data: Any) -> Mapping[str, Any]:
        x, y = data
        picked = torch.randperm(len(x))[:10], np.random.choice(len(x), 10)  # noqa: NPY002
        losses = [float(nn.functional.cross_entropy(model(x[one]), y[one])) for one in picked]
        return {"by_torch": losses[0], "by_numpy": losses[1]}


class Unpackable(Sampling):
    """Cannot be packed at the last batch of a unit, which has 2 samples."""

    def loss(self, model: Any, batch: Any) -> Any:
        scale = 1.0 if len(batch[0]) > 2 else next(model.parameters()).mean().item()
        return scale * super().loss(model, batch)


@pytest.mark.parametrize("kind", [Sampling, Unpackable])
def test_metrics_draw_as_they_do_after_a_unit_alone(kind: type[Any]) -> None:
    packed, alone = ([trainer(kind, *each) for each in RATES] for _ in range(2))
    kind.train_pack(packed)
    found, own = kind.evaluate_pack(packed), [unit_alone(one) for one in alone]
    assert difference([*map(values, found)], [*map(values, own)]) < 1e-12


def equal(one: Any, other: Any) -> bool:
    (python, numpy, cpu), (python_after, numpy_after, cpu_after) = one, other
    return python == python_after and all(map(np.array_equal, numpy, numpy_after)) and torch.equal(cpu, cpu_after)


@given(seeds=st.tuples(*[st.integers(0, 2**32 - 1)] * 3))
def test_the_states_of_seeds_are_those_that_seeding_leads_to(seeds: tuple[int, int, int]) -> None:
    before = states()
    found = seeded_states(*seeds)
    assert equal(before, states())
    random.seed(seeds[0])
    np.random.seed(seeds[1])  # noqa: NPY002
    torch.manual_seed(seeds[2])
    assert equal(found, states())
