"""Batches of members that differ where they may not: words that say in what."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from asyncsearch.errors import UsageError
from asyncsearch.packing import pack
from asyncsearch.trainers.torch.packs.units import PackedTrainers
from tests.packing.alone import difference
from tests.packing.models import FEATURES, batch, member
from tests.packing.test_torch_units import DATA, Blobs, both, saved, trainer

nn: Any = torch.nn


def loss(model: Any, given: Any) -> Any:
    x = given["x"] if isinstance(given, dict) else given[0]
    return model(x[:, :FEATURES].double()).square().mean()


def sample_losses(model: Any, given: Any) -> Any:
    return model(given[0]).square()


X, Y = batch(0)
UNLIKE = {
    "structure": ((X, Y), {"x": X, "y": Y}, "have different structures: give each the same tuple or dict"),
    "no tensor": ((X, "a"), (X, "b"), "differ in 'a', which is no tensor: make it one"),
    "features": (
        (X,),
        (torch.cat([X, X], 1),),
        r"differ in what a sample is, float64\[6\] and float64\[12\]: give all",
    ),
    "dtype": ((X,), (X.float(),), r"differ in what a sample is, float64\[6\] and float32\[6\]"),
    "one number": (
        (X, torch.ones(())),
        (X, torch.ones(2)),
        r"differ in what a sample is, float32\[\] and float32\[2\]",
    ),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_batches_that_cannot_be_put_into_one_are_told_in_what_they_differ(name: str) -> None:
    one, other, words = UNLIKE[name]
    members = [member(number=number, loss=loss) for number in range(2)]
    with pack(members) as packed, pytest.raises(UsageError, match=words):
        packed.step_each([one, other])


def test_a_batch_without_samples_is_refused_where_they_are_counted() -> None:
    members = [
        member(number=number, loss=loss, sample_losses=sample_losses, batch_size=3 + number) for number in (0, 1)
    ]
    with pack(members) as packed, pytest.raises(UsageError, match="A batch of type str has no tensor with samples"):
        packed.step("abc")


def test_losses_of_samples_that_are_not_one_for_each_are_refused() -> None:
    members = [
        member(number=number, loss=loss, sample_losses=sample_losses, batch_size=3 + number) for number in (0, 1)
    ]
    with (
        pack(members) as packed,
        pytest.raises(UsageError, match=r"a tensor \(B,\); it returned 2 dimensions: use red"),
    ):
        packed.step((X, Y))


class Columns(Blobs):
    """Learns from a number of columns; its network does not depend on it."""

    def model(self, hp: Any) -> Any:
        return nn.Sequential(nn.Unflatten(1, (1, -1)), nn.AdaptiveAvgPool1d(3), nn.Flatten(), nn.Linear(3, 2)).double()

    def data(self, hp: Any) -> Any:
        data = DATA[0][:, : hp["columns"]], DATA[1]
        return data, data


def test_trainers_whose_samples_have_other_shapes_are_groups_of_one_pack(tmp_path: Any) -> None:
    settings = [{"lr": 0.1, "columns": columns} for columns in (6, 6, 4, 4)]
    packed, alone = ([trainer(Columns, one) for one in settings] for _ in range(2))
    together = PackedTrainers(packed)
    together.train()
    for one in alone:
        one.train()
    files = [[saved(one, tmp_path / "state") for one in trainers] for trainers in (packed, alone)]
    assert difference(*files) < 1e-12
    assert together.describe() == [f"Members {numbers} train as one computation." for numbers in ("0, 1", "2, 3")]


class Centered(nn.Module):  # type: ignore[misc]
    """Mixes the samples of a batch, and is no layer that packs know."""

    def forward(self, x: Any) -> Any:
        return x - x.mean(0)


class Mixing(Blobs):
    def model(self, hp: Any) -> Any:
        return nn.Sequential(nn.Linear(6, 5), Centered(), nn.Linear(5, 2)).double()


class OtherMean(Blobs):
    """Its loss weighs classes, and is not the mean of the losses of its samples."""

    def loss(self, model: Any, batch: Any) -> Any:
        return nn.functional.cross_entropy(model(batch[0]), batch[1], torch.tensor([1.0, 3.0]).double())

    def sample_losses(self, model: Any, batch: Any) -> Any:
        return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


@pytest.mark.parametrize("kind", [Mixing, OtherMean])
def test_no_trainer_learns_from_the_padding_of_its_batches(kind: type[Any], tmp_path: Any) -> None:
    settings = [[{"lr": 0.1, "batch_size": size}] for size in (8, 16, 16)]
    assert both(kind, settings, tmp_path) < 1e-12


def test_where_padding_would_count_groups_have_one_batch_size_and_say_why() -> None:
    together = PackedTrainers([trainer(Mixing, {"lr": 0.1, "batch_size": size}) for size in (8, 16, 16)])
    together.train()
    assert together.describe()[1] == "Members 1, 2 train as one computation."
    assert "so it mixes samples" in together.apart()
    assert "is 8 in one and 16 in the other" in together.apart()
