"""What packed trainers do once for all of them, reading samples and evaluating, and that each has its own results."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from asyncsearch.trainers.torch.packs.units import PackedTrainers
from asyncsearch.trainers.torch.trainer import TorchTrainer
from tests.packing.alone import difference
from tests.packing.test_torch_units import (
    DATA,
    RATES,
    SAMPLES,
    Blobs,
    Normed,
    both,
    saved,
    trainer,
    unit_alone,
    values,
)

nn: Any = torch.nn


class OwnOrder(Blobs):
    """Its order of samples is another one for each learning rate."""

    def order(self, epoch: int, size: int) -> Any:
        return np.roll(super().order(epoch, size), round(100 * self.hp["lr"]))


class OwnData(Blobs):
    """Each trainer has a copy of the data."""

    def data(self, hp: Mapping[str, Any]) -> Any:
        return (DATA[0].clone(), DATA[1].clone()), (DATA[0].clone(), DATA[1].clone())


class Samples(torch.utils.data.Dataset):  # type: ignore[misc]
    """Counts the samples that are read."""

    def __init__(self, *, draws: bool = False) -> None:
        self.draws, self.read = draws, 0

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Any:
        self.read += 1
        noise = torch.randn(6, dtype=torch.float64) if self.draws else 0.0
        return DATA[0][index] + noise, DATA[1][index]


@pytest.fixture
def batches_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sizes of the batches that any trainer reads."""
    found: list[int] = []
    own = TorchTrainer._batch

    def batch(self: Any, data: Any, indices: Any) -> Any:
        found.append(len(indices))
        return own(self, data, indices)

    monkeypatch.setattr(TorchTrainer, "_batch", batch)
    return found


@pytest.mark.parametrize("kind", [Blobs, OwnData])
def test_samples_that_trainers_share_are_read_once(kind: type[Any], batches_read: list[int]) -> None:
    PackedTrainers([trainer(kind, *each) for each in RATES]).train()
    assert batches_read == [8] * 6 + [2]


def test_trainers_of_another_order_read_their_own_samples(batches_read: list[int], tmp_path: Path) -> None:
    PackedTrainers([trainer(OwnOrder, *each) for each in RATES]).train()
    assert len(batches_read) == 3 * 7
    assert both(OwnOrder, RATES, tmp_path) < 1e-12


@pytest.mark.parametrize(("draws", "times"), [(False, 1), (True, 3)])
def test_a_data_set_is_read_once_unless_reading_it_draws(draws: bool, times: int) -> None:
    samples = Samples(draws=draws)

    class Read(Blobs):
        def data(self, hp: Mapping[str, Any]) -> Any:
            return samples, DATA

    PackedTrainers([trainer(Read, *each) for each in RATES]).train()
    assert samples.read == times * SAMPLES


class Clipped(Blobs):
    clip_grad_norm = 0.05


@pytest.mark.parametrize("own", [{}, {"clip_grad_norm": 0.01}])
def test_the_gradient_of_each_trainer_is_clipped_by_its_own_norm(own: dict[str, Any], tmp_path: Path) -> None:
    settings = [[{"lr": 0.1, **own}], [{"lr": 0.05}], [{"lr": 0.2, "clip_grad_norm": None}]]
    assert both(Clipped, settings, tmp_path) < 1e-12
    clipped, free = trainer(Clipped, {"lr": 0.1, **own}), trainer(Blobs, {"lr": 0.1})
    for one in (clipped, free):
        unit_alone(one)
    assert difference(saved(clipped, tmp_path / "state")["model"], saved(free, tmp_path / "state")["model"]) > 1e-3


def test_200_steps_with_values_changing_in_units_equal_training_alone(tmp_path: Path) -> None:
    def made() -> list[Any]:
        settings = [{"lr": 0.1, "momentum": 0.9}, {"lr": 0.05, "p": 0.5}, {"lr": 0.2, "momentum": 0.5}]
        return [trainer(Clipped, one, inside=falling(one["lr"])) for one in settings]

    def falling(rate: float) -> Any:
        return lambda at: {"lr": rate / (1 + at), "clip_grad_norm": 0.5 / (1 + at)}

    packed, alone = made(), made()
    together = PackedTrainers(packed)
    for _ in range(29):
        together.train()
        for one in alone:
            one.train()
        for one in (*packed, *alone):
            one.trial.resource += 1
    assert packed[0].steps == 203
    files = [[saved(one, tmp_path / "state") for one in trainers] for trainers in (packed, alone)]
    assert difference(*files) < 1e-9


def test_a_trainer_that_becomes_nan_harms_no_other_and_reports_as_alone(tmp_path: Path) -> None:
    settings = [[{"lr": 0.1}], [{"lr": math.inf}], [{"lr": 0.2}]]
    assert both(Normed, settings, tmp_path, units=2) < 1e-12
    together = PackedTrainers([trainer(Normed, *each) for each in settings])
    together.train()
    assert [math.isfinite(one["loss"]) for one in together.evaluate()] == [True, False, True]


class OwnLoss(Blobs):
    def loss(self, model: Any, batch: Any) -> Any:
        return nn.functional.mse_loss(model(batch[0])[:, 0], batch[1].double())


class OwnMetrics(Blobs):
    def metrics(self, model: Any, data: Any) -> Mapping[str, Any]:
        return {"weight": float(model[0].weight.detach().abs().sum()), "lr": self.hp["lr"]}


class OwnValidation(Blobs):
    def data(self, hp: Mapping[str, Any]) -> Any:
        return DATA, (DATA[0] * hp["lr"], DATA[1])


class ReadValidation(Blobs):
    def data(self, hp: Mapping[str, Any]) -> Any:
        return DATA, Samples()


class Branching(Blobs):
    """Its loss cannot be computed for all at once in evaluation mode."""

    def loss(self, model: Any, batch: Any) -> Any:
        found = nn.functional.cross_entropy(model(batch[0]), batch[1])
        return found if model.training else torch.tensor(found.item())


@pytest.mark.parametrize(
    "kind", [Blobs, Normed, OwnLoss, OwnMetrics, OwnValidation, OwnData, ReadValidation, Branching]
)
def test_metrics_of_a_pack_are_those_of_each_trainer(kind: type[Any]) -> None:
    packed = [trainer(kind, *each) for each in RATES]
    together = PackedTrainers(packed)
    together.train()
    found, own = together.evaluate(), [one.evaluate() for one in packed]
    assert [list(metrics) for metrics in found] == [list(metrics) for metrics in own]
    assert difference([*map(values, found)], [*map(values, own)]) < 1e-12
    assert {type(value) for metrics in found for value in metrics.values()} == {float}


def test_evaluation_leaves_what_training_does_next_as_it_was(tmp_path: Path) -> None:
    packed, alone = ([trainer(Normed, *each) for each in RATES] for _ in range(2))
    for trainers, evaluates in ((packed, True), (alone, False)):
        together = PackedTrainers(trainers)
        together.train()
        if evaluates:
            together.evaluate()
        together.train()
    files = [[saved(one, tmp_path / "state") for one in trainers] for trainers in (packed, alone)]
    assert difference(*files) == 0


@pytest.mark.parametrize("kind", [Blobs, OwnData, OwnLoss])
def test_default_metrics_are_computed_at_once(kind: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    together = PackedTrainers([trainer(kind, *each) for each in RATES])
    together.train()
    monkeypatch.setattr(kind, "_untouched", None)  # what each one's own evaluate enters
    assert len(together.evaluate()) == 3
