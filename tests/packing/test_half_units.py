"""Trainers with mixed precision train units together as each does alone, from checkpoints to checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from asyncsearch.trainers.torch.packs.units import PackedTrainers
from tests.packing.alone import difference
from tests.packing.test_torch_units import Blobs, both, saved, trainer

nn: Any = torch.nn
TOLERANCES = {"float16": 5e-3, "bfloat16": 5e-2}
RATES = [[{"lr": 0.1, "momentum": 0.9}], [{"lr": 0.05}], [{"lr": 0.2, "momentum": 0.5, "p": 0.6}]]


class Half(Blobs):
    precision = "float16"

    def model(self, hp: Mapping[str, Any]) -> Any:
        return super().model(hp).float()

    def data(self, hp: Mapping[str, Any]) -> Any:
        x, y = super().data(hp)[0]
        return (x.float(), y), (x.float(), y)


class Brain(Half):
    precision = "bfloat16"


class HalfNormed(Half):
    def model(self, hp: Mapping[str, Any]) -> Any:
        return nn.Sequential(nn.Linear(6, 5, bias=False), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2))


class HalfLoss(Half):
    """A mean of its own, which is a half, and the parts of it."""

    def loss(self, model: Any, batch: Any) -> Any:
        return self.sample_losses(model, batch).mean()

    def sample_losses(self, model: Any, batch: Any) -> Any:
        return (model(batch[0])[:, 0] - batch[1]).square()


@pytest.mark.parametrize("kind", [Half, Brain, HalfNormed, HalfLoss])
def test_a_unit_of_each_trainer_in_mixed_precision_equals_its_own(kind: type[Any], tmp_path: Path) -> None:
    assert both(kind, RATES, tmp_path) < TOLERANCES[kind.precision]


def test_a_packs_evaluation_is_in_the_precision_of_the_weights() -> None:
    trainers = [trainer(Half, *each) for each in RATES]
    together = PackedTrainers(trainers)
    together.train()
    for packed, one in zip(together.evaluate(), trainers, strict=True):
        assert packed["loss"] == pytest.approx(one.evaluate()["loss"], rel=1e-6)


class Spiked(Blobs):
    """Double precision, which autocast leaves as it is; some trials see a number that is not finite in each unit."""

    precision = "float16"

    def data(self, hp: Mapping[str, Any]) -> Any:
        (x, y), validation = super().data(hp)
        return (x.index_fill(0, torch.tensor([3]), float("inf")) if hp.get("spiked") else x, y), validation


SPIKED = [[{"lr": 0.1, "momentum": 0.9}], [{"lr": 0.05, "spiked": True}], [{"lr": 0.2, "p": 0.6}]]


def test_trainers_pack_and_go_on_alone_with_their_own_scales(tmp_path: Path) -> None:
    alone = [trainer(Spiked, *each) for each in SPIKED]
    for one in alone:
        for _ in range(3):
            one.train()
    first = [trainer(Spiked, *each) for each in SPIKED]
    PackedTrainers(first).train()
    for one in first:
        one.train()
    second = [trainer(Spiked, *each) for each in SPIKED]
    for one, other in zip(first, second, strict=True):
        one.save(tmp_path / "state")
        other.load(tmp_path / "state")
    PackedTrainers(second).train()
    files = [[saved(one, tmp_path / "state") for one in trainers] for trainers in (second, alone)]
    assert difference(*files) < 1e-12
    scales = [state["scaler"]["scale"] for state in files[0]]
    assert scales == [2.0**16, 2.0**13, 2.0**16], "one batch of each unit overflows"


def test_an_optimizer_of_another_class_goes_on_with_the_scale(tmp_path: Path) -> None:
    changing = [
        [{"lr": 0.1}, {"lr": 0.1, "adam": True}, {"lr": 0.1, "adam": True}],
        [{"lr": 0.1, "spiked": True}, {"lr": 0.1, "adam": True, "spiked": True}, {"lr": 0.1, "adam": True}],
    ]
    assert both(Spiked, changing, tmp_path) < 1e-12


class Chosen(Half):
    """Its precision is a hyper-parameter."""

    def setup(self, hp: dict[str, Any]) -> None:
        self.precision = hp["precision"]
        super().setup(hp)


def test_trainers_of_different_precision_share_a_pack_and_no_computation() -> None:
    trainers = [trainer(Chosen, {"lr": 0.1, "precision": precision}) for precision in ("float16", "bfloat16")]
    together = PackedTrainers(trainers)
    together.train()
    assert "precision is float16 in one and bfloat16 in the other" in together.describe()[1]
