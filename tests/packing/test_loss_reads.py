"""Each trainer of a pack has its own loss, whatever that reads of its trainer and whenever the values differ."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from asyncsearch.trainers.torch.packs.units import PackedTrainers
from tests.packing.alone import difference
from tests.packing.test_torch_units import Blobs, begin_unit, both, end_unit, saved, trainer, unit_alone

nn: Any = torch.nn


def smoothed(model: Any, batch: Any, label_smoothing: float = 0.0, **_: Any) -> Any:
    return nn.functional.cross_entropy(model(batch[0]), batch[1], label_smoothing=label_smoothing)


class ByName(Blobs):
    def loss(self, model: Any, batch: Any) -> Any:
        return smoothed(model, batch, self.hp["label_smoothing"])


class ByGet(Blobs):
    def loss(self, model: Any, batch: Any) -> Any:
        return smoothed(model, batch, self.hp.get("label_smoothing", 0.0))


class ByPresence(Blobs):
    def loss(self, model: Any, batch: Any) -> Any:
        return smoothed(model, batch, 0.3 if "smooth" in self.hp else 0.0)


class ByItems(Blobs):
    def loss(self, model: Any, batch: Any) -> Any:
        return smoothed(model, batch, next(value for name, value in self.hp.items() if name == "label_smoothing"))


class ByKeys(Blobs):
    def loss(self, model: Any, batch: Any) -> Any:
        return smoothed(model, batch, 0.3 if "smooth" in list(self.hp) else 0.0)


class Unpacked(Blobs):
    def loss(self, model: Any, batch: Any) -> Any:
        return smoothed(model, batch, **self.hp)


class ByTrial(Blobs):
    def loss(self, model: Any, batch: Any) -> Any:
        return smoothed(model, batch, self.trial.params["label_smoothing"])


class ByDifference(Blobs):
    def loss(self, model: Any, batch: Any) -> Any:
        return smoothed(model, batch, 0.1 if self.hp != LATER[1] else 0.3)


class BySize(Blobs):
    """Reads it for the last batch of a unit only, which is smaller."""

    def loss(self, model: Any, batch: Any) -> Any:
        return smoothed(model, batch, 0.0 if len(batch[0]) == self.batch_size else self.hp["label_smoothing"])


class ByMode(Blobs):
    """Reads it in evaluation only."""

    def loss(self, model: Any, batch: Any) -> Any:
        return smoothed(model, batch, 0.0 if model.training else self.hp["label_smoothing"])


class ByProgress(Blobs):
    """Reads it after its first unit only: when it is evaluated, the unit counts already."""

    def loss(self, model: Any, batch: Any) -> Any:
        return smoothed(model, batch, self.hp["label_smoothing"] if self.samples else 0.0)


class ByAttribute(Blobs):
    def setup(self, hp: Any) -> None:
        self.smoothing = hp["label_smoothing"]
        super().setup(hp)

    def update(self, hp: Any) -> None:
        self.smoothing = hp.get("label_smoothing", self.smoothing)
        super().update(hp)

    def loss(self, model: Any, batch: Any) -> Any:
        return smoothed(model, batch, self.smoothing)


class ByLayer(Blobs):
    def setup(self, hp: Any) -> None:
        self.criterion = nn.CrossEntropyLoss(label_smoothing=hp["label_smoothing"])
        super().setup(hp)

    def update(self, hp: Any) -> None:
        self.criterion.label_smoothing = hp.get("label_smoothing", self.criterion.label_smoothing)
        super().update(hp)

    def loss(self, model: Any, batch: Any) -> Any:
        return self.criterion(model(batch[0]), batch[1])


class Options:
    """Settings without a comparison of their own."""

    def __init__(self, label_smoothing: float, is_scaled: bool = False) -> None:
        self.weights, self.is_scaled = np.array([1.0 - label_smoothing, label_smoothing]), is_scaled


class ByOptions(Blobs):
    def setup(self, hp: Any) -> None:
        self.options = Options(hp["label_smoothing"])
        super().setup(hp)

    def update(self, hp: Any) -> None:
        self.options = Options(hp.get("label_smoothing", self.hp["label_smoothing"]))
        super().update(hp)

    def loss(self, model: Any, batch: Any) -> Any:
        return smoothed(model, batch, float(self.options.weights[1]))


class Switched(ByOptions):
    """Its settings change in place, and lead to what no loss has read before."""

    def update(self, hp: Any) -> None:
        self.options.is_scaled = True
        super(ByOptions, self).update(hp)

    def loss(self, model: Any, batch: Any) -> Any:
        return smoothed(model, batch) * (self.hp["scale"] if self.options.is_scaled else 1.0)


class OwnFunction(Blobs):
    """Its loss is an attribute of the object."""

    def setup(self, hp: Any) -> None:
        self.loss = lambda model, batch: smoothed(model, batch, hp["label_smoothing"])  # type: ignore[method-assign]
        super().setup(hp)


class Penalized(Blobs):
    """Reads another hyper-parameter where the first one says so."""

    def loss(self, model: Any, batch: Any) -> Any:
        return smoothed(model, batch, self.hp["label_smoothing"]) * (self.hp["scale"] if self.hp["is_scaled"] else 1.0)


KINDS = (
    ByName,
    ByGet,
    ByPresence,
    ByItems,
    ByKeys,
    Unpacked,
    ByTrial,
    ByMode,
    ByProgress,
    ByAttribute,
    ByLayer,
    OwnFunction,
    ByDifference,
    BySize,
    ByOptions,
)
FIRST = [{"lr": rate, "label_smoothing": 0.1} for rate in (0.1, 0.1)]
LATER = [{"lr": 0.1, "label_smoothing": 0.1}, {"lr": 0.1, "label_smoothing": 0.3, "smooth": 1}]


def trained(kind: type[Any], settings: list[dict[str, Any]], folder: Path) -> float:
    """Train a unit of trainers packed and alone, and return the largest difference of checkpoints and metrics."""
    packed, alone = ([trainer(kind, copy.deepcopy(one)) for one in settings] for _ in range(2))
    kind.train_pack(packed)
    metrics = [kind.evaluate_pack(packed), [unit_alone(one) for one in alone]]
    files = [[saved(one, folder / "state") for one in trainers] for trainers in (packed, alone)]
    losses = [torch.tensor([one["loss"] for one in found]).double() for found in metrics]
    return max(difference(*files), difference(*losses))


@pytest.mark.parametrize("kind", KINDS)
def test_a_later_pack_whose_losses_read_another_value_trains_with_its_own(kind: type[Any], tmp_path: Path) -> None:
    assert trained(kind, FIRST, tmp_path) < 1e-12
    assert trained(kind, LATER, tmp_path) < 1e-12


@pytest.mark.parametrize("kind", [ByName, ByTrial, ByAttribute, ByLayer, ByOptions])
def test_values_that_a_loss_reads_may_differ_later_and_be_equal_again(kind: type[Any], tmp_path: Path) -> None:
    settings = [
        [{"lr": rate, "label_smoothing": value} for value in (0.1, later, 0.2)]
        for rate, later in ((0.1, 0.1), (0.2, 0.3), (0.05, 0.3))
    ]
    assert both(kind, settings, tmp_path) < 1e-12


def test_a_trainer_that_joins_with_another_value_trains_with_its_own(tmp_path: Path) -> None:
    packed, alone = ([trainer(ByName, one) for one in (*FIRST, LATER[1])] for _ in range(2))
    ByName.train_pack(packed[:2])
    ByName.train_pack(packed)
    for one, units in zip(alone, (2, 2, 1), strict=True):
        for _ in range(units):
            one.train()
    files = [[saved(one, tmp_path / "state") for one in trainers] for trainers in (packed, alone)]
    assert difference(*files) < 1e-12


def test_the_loss_of_a_trainer_that_has_left_is_not_that_of_the_others(tmp_path: Path) -> None:
    units = [{"lr": 0.1, "label_smoothing": value} for value in (0.1, 0.3)]
    packed, alone = ([trainer(ByName, *units) for _ in range(3)] for _ in range(2))
    together = PackedTrainers(packed)
    for number in range(2):
        for one in packed[number:]:
            begin_unit(one)
        together.train()
        for one in packed:
            end_unit(one)
        if not number:
            together.leave(packed[0])
    for one in alone[1:]:
        unit_alone(one), unit_alone(one)
    files = [[saved(one, tmp_path / "state") for one in trainers[1:]] for trainers in (packed, alone)]
    assert difference(*files) < 1e-12


def test_members_with_equal_values_train_as_one_computation_beside_others() -> None:
    together = PackedTrainers([trainer(ByName, {"lr": 0.1, "label_smoothing": 0.1 * (n % 2)}) for n in range(4)])
    together.train()
    assert together.describe() == [f"Members {numbers} train as one computation." for numbers in ("0, 2", "1, 3")]


def test_what_differs_is_said_in_words() -> None:
    together = PackedTrainers([trainer(ByName, one) for one in LATER])
    together.train()
    assert together.describe()[1].endswith(
        "hp['label_smoothing'], which loss() reads, is 0.1 in one and 0.3 in the other."
    )


def test_values_that_are_shown_alike_are_said_to_differ_inside() -> None:
    together = PackedTrainers([trainer(ByLayer, one) for one in LATER])
    together.train()
    assert "is not the same in both: each is shown as CrossEntropyLoss()" in together.describe()[1]


def test_a_hyper_parameter_read_in_few_trials_is_found_when_it_is_read(tmp_path: Path) -> None:
    plain = {"lr": 0.1, "label_smoothing": 0.1, "is_scaled": False}
    assert trained(Penalized, [plain, {**plain, "scale": 2.0}], tmp_path) < 1e-12
    scaled = [{**plain, "is_scaled": True, "scale": scale} for scale in (2.0, 3.0)]
    assert trained(Penalized, scaled, tmp_path) < 1e-12


def test_an_attribute_changed_in_place_may_lead_to_another_hyper_parameter(tmp_path: Path) -> None:
    units = [[{"lr": rate, "label_smoothing": 0.1, "scale": scale} for rate in (0.1, 0.2)] for scale in (2.0, 3.0)]
    assert both(Switched, units, tmp_path) < 1e-12


@pytest.mark.parametrize("kind", [ByOptions, ByLayer])
def test_equal_attributes_of_several_trainers_keep_none_apart(kind: type[Any]) -> None:
    together = PackedTrainers([trainer(kind, {"lr": 0.1, "label_smoothing": 0.1}) for _ in range(2)])
    together.train()
    assert together.describe() == ["Members 0, 1 train as one computation."]


class OwnNet(Blobs):
    def loss(self, model: Any, batch: Any) -> Any:
        return smoothed(self.net, batch)


class Counting(Blobs):
    calls = 0

    def loss(self, model: Any, batch: Any) -> Any:
        self.calls += 1
        return smoothed(model, batch)


class Defaulting(Blobs):
    def loss(self, model: Any, batch: Any) -> Any:
        return smoothed(model, batch, self.hp.setdefault("other", 0.2))


class Appending(Blobs):
    def loss(self, model: Any, batch: Any) -> Any:
        self.hp["widths"].append(len(self.hp["widths"]))
        return smoothed(model, batch) * (1 + 0.01 * len(self.hp["widths"]))


class Averaging(Blobs):
    """Weighs by a running mean, a tensor that it changes in place."""

    def setup(self, hp: Any) -> None:
        self.mean = torch.zeros((), dtype=torch.float64)
        super().setup(hp)

    def loss(self, model: Any, batch: Any) -> Any:
        found = smoothed(model, batch)
        return found * (1 + self.mean.mul_(0.9).add_(found.detach(), alpha=0.1))


class Streaming(Blobs):
    def setup(self, hp: Any) -> None:
        self.scales = (1 / number for number in range(1, 1000))
        super().setup(hp)

    def loss(self, model: Any, batch: Any) -> Any:
        return smoothed(model, batch) * next(self.scales)


class MixingUp(Blobs):
    def loss(self, model: Any, batch: Any) -> Any:
        share = np.random.beta(0.4, 0.4)  # noqa: NPY002
        return share * smoothed(model, batch) + (1 - share) * smoothed(model, (batch[0].flip(0), batch[1].flip(0)))


class ByMethod(Blobs):
    def loss(self, model: Any, batch: Any) -> Any:
        return smoothed(model, batch, self.trial.at(0.0)["label_smoothing"])


class WarmedUp(Blobs):
    def loss(self, model: Any, batch: Any) -> Any:
        return smoothed(model, batch) * min(1.0, self.steps / 5)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (OwnNet, "loss() reads or writes self.net, which each trainer has of its own"),
        (WarmedUp, "loss() reads or writes self.steps"),
        (Counting, "loss() changes self.calls, which a pack does for one trainer only"),
        (Defaulting, "loss() changes self.hp, which a pack does for one trainer only"),
        (Appending, "loss() changes self.hp, which a pack does for one trainer only"),
        (Averaging, "loss() changes self.mean"),
        (Streaming, "loss() reads self.scales, a generator, which cannot be copied"),
        (MixingUp, "loss() draws from the generator of Python or of numpy: draw such numbers in data()"),
        (ByMethod, "loss() calls self.trial.at(): read self.hp instead"),
    ],
)
def test_a_loss_on_unshared_state_trains_each_trainer_alone_and_says_so(
    kind: type[Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trained(kind, [{**one, "widths": []} for one in FIRST], tmp_path) < 1e-12
    again = kind.train_pack([trainer(kind, {**one, "widths": []}) for one in FIRST])
    assert words in again.refused
    assert words in capsys.readouterr().err


def test_to_see_what_a_loss_reads_changes_nothing(tmp_path: Path) -> None:
    class Noisy(ByName):
        def loss(self, model: Any, batch: Any) -> Any:
            torch.rand(3)
            return super().loss(model, batch)

    packed = trainer(Noisy, FIRST[0])
    before, drawn = saved(packed, tmp_path / "state"), torch.get_rng_state()
    from asyncsearch.trainers.torch.packs.loss_reads import LossReads

    reads = LossReads()
    reads.watch(packed, packed._batch(packed._train_data, torch.arange(8).numpy()))
    assert list(reads.values(packed)) == ["hp['label_smoothing'], which loss() reads,"]
    assert difference(saved(packed, tmp_path / "state"), before) == 0
    assert torch.equal(torch.get_rng_state(), drawn)
