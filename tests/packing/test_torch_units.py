"""Units of several trainers together equal each trainer's own units, from checkpoints to checkpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from asyncsearch.trainers.packs import pack_training
from asyncsearch.trainers.torch.packs import must_match
from asyncsearch.trainers.torch.packs.trainer_refusals import why_not_together
from asyncsearch.trainers.torch.packs.units import PackedTrainers
from asyncsearch.trainers.torch.trainer import TorchTrainer
from tests.packing.alone import difference
from tests.trainers.tools import Trial

nn: Any = torch.nn
SAMPLES = 50


def blobs() -> Any:
    x = torch.randn(SAMPLES, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return x, (x[:, 0] > 0).long()


DATA = blobs()


class Blobs(TorchTrainer):
    """An MLP with dropout in double precision, with everything else as the trainer has it."""

    batch_size = 8

    def model(self, hp: Mapping[str, Any]) -> Any:
        return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Dropout(hp.get("p", 0.3)), nn.Linear(5, 2)).double()

    def optimizer(self, hp: Mapping[str, Any], model: Any) -> Any:
        if hp.get("adam"):
            return torch.optim.Adam(model.parameters(), hp["lr"])
        return torch.optim.SGD(model.parameters(), hp["lr"], hp.get("momentum", 0.0))

    def data(self, hp: Mapping[str, Any]) -> Any:
        return DATA, DATA


class Normed(Blobs):
    def model(self, hp: Mapping[str, Any]) -> Any:
        return nn.Sequential(nn.Linear(6, 5, bias=False), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2)).double()


class Noisy(torch.utils.data.Dataset):  # type: ignore[misc]
    """Draws with each sample that is fetched."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Any:
        import random

        noise = torch.randn(6, dtype=torch.float64) * random.random()
        return DATA[0][index] + 0.1 * noise, DATA[1][index]


class Augmented(Blobs):
    def data(self, hp: Mapping[str, Any]) -> Any:
        return Noisy(), DATA


def trainer(kind: type[Any], *units: dict[str, Any], inside: Any = None) -> Any:
    found = kind()
    found.trial = Trial(units, inside)
    found.setup(found.trial.params)
    return found


def unit_alone(one: Any) -> Any:
    begin_unit(one)
    one.train()
    return end_unit(one)


def begin_unit(one: Any) -> None:
    now = one.trial.params
    changed = {name: value for name, value in now.items() if one.hp.get(name) != value}
    if changed:
        one.update(changed)


def end_unit(one: Any) -> Any:
    one.trial.resource += 1
    return dict(one.evaluate())


def saved(one: Any, path: Path) -> Any:
    one.save(path)
    return torch.load(path, weights_only=True)


def both(kind: type[Any], settings: Sequence[Any], folder: Path, units: int = 3) -> float:
    """Train trainers packed and alone by units, and return the largest difference of metrics and checkpoints."""
    packed = [trainer(kind, *each) for each in settings]
    alone = [trainer(kind, *each) for each in settings]
    together = PackedTrainers(packed)
    gap = 0.0
    for _ in range(units):
        for one in packed:
            begin_unit(one)
        together.train()
        metrics = [end_unit(one) for one in packed], [unit_alone(one) for one in alone]
        files = [[saved(one, folder / "state") for one in trainers] for trainers in (packed, alone)]
        gap = max(gap, difference([*map(values, metrics[0])], [*map(values, metrics[1])]), difference(*files))
    return gap


def values(metrics: Mapping[str, Any]) -> Any:
    return torch.tensor([float(value) for value in metrics.values()], dtype=torch.float64)


RATES = [[{"lr": 0.1, "momentum": 0.9}], [{"lr": 0.05}], [{"lr": 0.2, "momentum": 0.5, "p": 0.6}]]


@pytest.mark.parametrize("kind", [Blobs, Normed, Augmented])
def test_a_unit_of_each_trainer_equals_its_own(kind: type[Any], tmp_path: Path) -> None:
    assert both(kind, RATES, tmp_path) < 1e-12


def test_batch_sizes_may_differ(tmp_path: Path) -> None:
    sizes = [[{"lr": 0.1, "batch_size": 4}], [{"lr": 0.1, "batch_size": 16}], [{"lr": 0.05, "batch_size": 7}]]
    assert both(Blobs, sizes, tmp_path) < 1e-12


def test_values_and_optimizers_may_change_between_units(tmp_path: Path) -> None:
    changing = [
        [{"lr": 0.1, "momentum": 0.9}, {"lr": 0.01, "momentum": 0.9}, {"lr": 0.01, "momentum": 0.5}],
        [{"lr": 0.01}, {"lr": 0.01, "adam": True}, {"lr": 0.02, "adam": True}],
        [{"lr": 0.2, "batch_size": 8}, {"lr": 0.1, "batch_size": 16}, {"lr": 0.1, "batch_size": 16}],
    ]
    assert both(Blobs, changing, tmp_path) < 1e-12


def test_values_may_change_inside_a_unit(tmp_path: Path) -> None:
    packed, alone = (
        [trainer(Blobs, {"lr": 0.1 * n}, inside=lambda at, n=n: {"lr": 0.1 * n / (1 + at)}) for n in (1, 2)]
        for _ in range(2)
    )
    PackedTrainers(packed).train()
    for one in alone:
        one.train()
    files = [[saved(one, tmp_path / "state") for one in trainers] for trainers in (packed, alone)]
    assert difference(*files) < 1e-12


def test_a_packed_prefix_goes_on_alone_and_the_other_way_round(tmp_path: Path) -> None:
    alone = [trainer(Blobs, *each) for each in RATES]
    for one in alone:
        unit_alone(one), unit_alone(one)
    first = [trainer(Blobs, *each) for each in RATES]
    PackedTrainers(first[:2]).train()
    first[2].train()
    second = [trainer(Blobs, *each) for each in RATES]
    for one, other in zip(first, second, strict=True):
        one.save(tmp_path / "state")
        other.load(tmp_path / "state")
    second[0].train()
    PackedTrainers(second[1:]).train()
    files = [[saved(one, tmp_path / "state") for one in trainers] for trainers in (second, alone)]
    assert difference(*files) < 1e-12


def test_trainers_leave_join_and_load_between_units(tmp_path: Path) -> None:
    packed, alone = ([trainer(Normed, *each) for each in RATES] for _ in range(2))
    together = PackedTrainers(packed[:2])
    together.train()
    packed[0].save(tmp_path / "first")
    together.join(packed[2])
    together.train()
    packed[0].load(tmp_path / "first")
    together.leave(packed[1])
    together.train()
    for one, units in zip(alone, (2, 2, 2), strict=True):
        for _ in range(units):
            one.train()
    files = [[saved(one, tmp_path / "state") for one in trainers] for trainers in (packed, alone)]
    assert difference(*files) < 1e-12
    assert together.trainers == [packed[0], packed[2]]


def test_parameters_that_are_frozen_between_units_stay(tmp_path: Path) -> None:
    packed, alone = ([trainer(Blobs, *each) for each in RATES] for _ in range(2))
    together = PackedTrainers(packed)
    for frozen in (False, True):
        for one in (*packed, *alone):
            one.net[0].weight.requires_grad_(not frozen)
        together.train()
        for one in alone:
            one.train()
    files = [[saved(one, tmp_path / "state") for one in trainers] for trainers in (packed, alone)]
    assert difference(*files) < 1e-12


class OwnStep(Blobs):
    def step(self, batch: Any) -> None:
        super().step(batch)


class OwnAutocast(Blobs):
    precision = "bfloat16"

    def autocast(self) -> Any:
        return torch.autocast("cpu", dtype=torch.float16)


class Loading(Blobs):
    data_workers = 1


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (OwnStep, r"OwnStep.step \(test_torch_units.py, line \d+\) is its own"),
        (
            OwnAutocast,
            r"OwnAutocast.autocast \(.*, line \d+\) is its own.* set precision to .* or enter torch.autocast",
        ),
        (Loading, "data_workers=1 of Loading"),
    ],
)
def test_what_a_trainer_does_by_itself_is_refused_by_name(kind: type[Any], words: str) -> None:
    found = why_not_together([trainer(kind, *each) for each in RATES])
    assert found is not None
    assert re.search(words, found), found


def test_what_copies_are_trained_for_leaves_no_trace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = []
    for tries in (True, False):
        pack_training._known.clear()
        if not tries:
            monkeypatch.setattr(must_match, "why_not", lambda members, batch: None)
        trainers = [trainer(Normed, *each) for each in RATES]
        together = PackedTrainers(trainers)
        together.train()
        assert together.describe() == ["Members 0, 1, 2 train as one computation."]
        files.append([saved(one, tmp_path / "state") for one in trainers])
    assert difference(*files) == 0


def test_batch_sizes_that_cannot_be_padded_are_groups_of_one_pack(tmp_path: Path) -> None:
    sizes = [
        [{"lr": 0.1, "batch_size": first}, {"lr": 0.1, "batch_size": second}]
        for first, second in ((8, 8), (8, 16), (16, 16))
    ]
    assert both(Normed, sizes, tmp_path) < 1e-12
    trainers = [trainer(Normed, *each[:1]) for each in sizes]
    together = PackedTrainers(trainers)
    together.train()
    assert together.describe()[0] == "Members 0, 1 train as one computation."
    assert "the size of batches (layer '1' (BatchNorm1d) mixes samples, padding too" in together.describe()[1]
