"""TorchTrainer: what is interrupted trains on bit by bit, whatever is random, buffered or changed on the way."""

from __future__ import annotations

import itertools
import os
import pickle
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import pytest

from asyncsearch.errors import UsageError
from tests.trainers.tools import Run, Trial, Values, is_resumed_bit_by_bit

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn

from asyncsearch.trainers.torch import loaders  # noqa: E402  # needs torch
from asyncsearch.trainers.torch.trainer import TorchTrainer  # noqa: E402

BASE: Values = {"lr": 0.1, "momentum": 0.9, "batch_size": 16, "weight_decay": 1e-3, "optimizer": "sgd"}
ADAM = BASE | {"lr": 0.01, "optimizer": "adam"}


def blobs() -> tuple[Any, Any]:
    source = torch.Generator().manual_seed(1)
    x = torch.randn(100, 8, generator=source)
    return x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long()


class Net(TorchTrainer):
    """Has all that a checkpoint can lose: batch norm, dropout, momentum; an epoch is 100 samples."""

    def model(self, hp: Mapping[str, Any]) -> Any:
        return nn.Sequential(
            nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(hp.get("dropout", 0.3)), nn.Linear(16, 3)
        )

    def optimizer(self, hp: Mapping[str, Any], model: Any) -> Any:
        if hp["optimizer"] == "adam":
            return torch.optim.AdamW(model.parameters(), hp["lr"], weight_decay=hp["weight_decay"])
        return torch.optim.SGD(model.parameters(), hp["lr"], hp["momentum"], weight_decay=hp["weight_decay"])

    def data(self, hp: Mapping[str, Any]) -> Any:
        return blobs(), blobs()

    def update(self, hp: Values) -> None:
        super().update(hp)
        if "dropout" in hp:
            self.net[3].p = hp["dropout"]


class InsideEpochs(Net):
    samples_per_unit = 70


class OneSampleLeft(Net):
    samples_per_unit = 57


class Half(Net):
    precision = "float16"


class Brain(Net):
    precision = "bfloat16"


class Clipped(Half):
    def step(self, batch: Any) -> None:
        self.opt.zero_grad()
        with self.autocast():
            loss = self.loss(self.net, batch)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
        self.scaler.step(self.opt)
        self.scaler.update()


class Averaging(nn.Module):  # type: ignore[misc]
    """Keeps a buffer that no state_dict has, and uses it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(8), persistent=False)

    def forward(self, x: Any) -> Any:
        if self.training:
            self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - self.mean


class HiddenBuffer(Net):
    def model(self, hp: Mapping[str, Any]) -> Any:
        return nn.Sequential(Averaging(), nn.Linear(8, 3))


class Noisy(torch.utils.data.Dataset):  # type: ignore[misc]
    """Draws from the generator of each library, as augmentation does."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> Any:
        x, y = blobs()
        noise = random.random() + float(np.random.rand()) + torch.rand(()).item()  # noqa: NPY002
        return x[index] + noise, y[index]


class Augmented(Net):
    def data(self, hp: Mapping[str, Any]) -> Any:
        return Noisy(), blobs()


class LoadedAhead(Augmented):
    data_workers = 2


class Drawing(torch.utils.data.Dataset):  # type: ignore[misc]
    """Draws from a generator of its own, whose state changes in the process that fetches the samples."""

    def __init__(self) -> None:
        self.source = torch.Generator().manual_seed(1)

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> Any:
        x, y = blobs()
        return x[index] + torch.rand((), generator=self.source), y[index]


class OwnGenerator(Net):
    data_workers = 1

    def data(self, hp: Mapping[str, Any]) -> Any:
        return Drawing(), blobs()


class KeptGenerator(OwnGenerator):
    """Keeps the process with its copy of the data, which loading changes."""

    keep_data_workers = True


class Samples(torch.utils.data.Dataset):  # type: ignore[misc]
    """Samples of several parts, of which one is a text."""

    def __len__(self) -> int:
        return 101

    def __getitem__(self, index: int) -> Any:
        return {"x": (torch.full((3,), float(index)), index), "name": f"sample {index}", "process": os.getpid()}


class ValidatedAhead(Net):
    data_workers = 2


def test_workers_load_validation_data_as_it_is_loaded_here() -> None:
    found = []
    for trainer_class in (Net, ValidatedAhead):
        trainer = Run(trainer_class, Trial([BASE])).trainer
        batches = [{**batch, "x": [part.tolist() for part in batch["x"]]} for batch in trainer.batches(Samples(), 40)]
        found.append([(batch["x"], batch["name"]) for batch in batches])
        loaded_by = {process for batch in batches for process in batch["process"].tolist()}
        assert (os.getpid() in loaded_by) == (trainer_class is Net)
        assert len(loaded_by) == max(1, trainer_class.data_workers)
    assert found[0] == found[1]
    assert [len(names) for _, names in found[0]] == [40, 40, 21]


class Parts(torch.utils.data.Dataset):  # type: ignore[misc]
    """Samples of all kinds that torch joins."""

    def __len__(self) -> int:
        return 7

    def __getitem__(self, index: int) -> Any:
        return {"pair": Pair(index, str(index)), "none": (), "names": [b"a", "b"], "one": torch.tensor(index)}


class Pair(NamedTuple):
    number: int
    name: str


@pytest.mark.parametrize("sizes", [3, 7])
def test_batch_loaded_ahead_has_the_kinds_that_torch_makes(sizes: int) -> None:
    one, ahead = (list(Run(kind, Trial([BASE])).trainer.batches(Parts(), sizes)) for kind in (Net, ValidatedAhead))
    assert repr(ahead) == repr(one)


def test_collate_that_is_set_on_a_trainer_makes_whole_batches() -> None:
    trainer = Run(ValidatedAhead, Trial([BASE])).trainer
    trainer.collate = len
    assert list(trainer.batches(Parts(), 5)) == [5, 2]


def steady(base: Values = BASE) -> list[Values]:
    return [base] * 4


@pytest.mark.parametrize(
    ("trainer_class", "units"),
    [
        (Net, steady()),
        (Net, steady(ADAM)),
        (Net, [BASE | {"batch_size": size} for size in (16, 16, 32, 8)]),
        (InsideEpochs, [BASE | {"batch_size": size} for size in (16, 16, 32, 8)]),
        (InsideEpochs, [ADAM | {"batch_size": size} for size in (16, 32, 32, 8)]),
        (Net, [BASE | {"lr": lr, "momentum": m} for lr, m in ((0.1, 0.9), (0.1, 0.8), (0.05, 0.7), (0.05, 0.5))]),
        (Net, [BASE | {"dropout": p} for p in (0.1, 0.1, 0.5, 0.2)]),
        (Net, [BASE, BASE, ADAM, ADAM]),
        (Net, [BASE, ADAM, ADAM, BASE]),
        (HiddenBuffer, steady()),
        (Augmented, steady()),
        (Half, steady()),
        (Clipped, steady()),
        (Brain, steady()),
    ],
    ids=[
        "sgd",
        "adam",
        "batch size at a unit",
        "batch size inside an epoch",
        "batch size inside an epoch, adam",
        "lr and momentum",
        "dropout",
        "another optimizer at the cut",
        "another optimizer on the way",
        "buffer that is not in the state_dict",
        "random numbers of python, numpy and torch",
        "float16 with a scaler",
        "gradients clipped",
        "bfloat16",
    ],
)
def test_two_and_two_units_are_four(trainer_class: type[Any], units: list[Values], tmp_path: Path) -> None:
    assert is_resumed_bit_by_bit(trainer_class, units, tmp_path)


def test_data_with_a_generator_of_its_own_resumes_as_its_workers_are_new(tmp_path: Path) -> None:
    assert is_resumed_bit_by_bit(OwnGenerator, steady(), tmp_path)


def test_workers_that_were_kept_over_units_would_not_resume_alike(tmp_path: Path) -> None:
    assert not is_resumed_bit_by_bit(KeptGenerator, steady(), tmp_path)


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_values_that_change_inside_a_unit_are_the_same_after_a_cut(cut: int, tmp_path: Path) -> None:
    def inside(time: float) -> Values:
        return {"lr": 0.1 * (1 + time % 2)}

    units = [BASE | inside(unit) for unit in range(4)]
    assert is_resumed_bit_by_bit(InsideEpochs, units, tmp_path, inside, cut)


def test_data_that_is_loaded_ahead_is_not_trained_ahead(tmp_path: Path) -> None:
    """Trap 3 of notes/stages.md, section 2.4."""
    assert is_resumed_bit_by_bit(LoadedAhead, steady()[:2], tmp_path, cut=1)


class Loading(Noisy):
    """Writes down each process that loads a sample."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, index: int) -> Any:
        (self.folder / str(os.getpid())).touch()
        return super().__getitem__(index)


class NewWorkers(Net):
    data_workers = 2
    folder: Path

    def data(self, hp: Mapping[str, Any]) -> Any:
        data = Loading(self.folder)
        return data, data

    def collate(self, samples: list[Any]) -> Any:
        (self.folder / str(os.getpid())).touch()
        return super().collate(samples)


def test_processes_that_are_kept_load_what_new_ones_do(tmp_path: Path) -> None:
    found = []
    for is_kept in (False, True):
        folder = tmp_path / str(is_kept)
        folder.mkdir()
        kind: Any = type("Workers", (NewWorkers,), {"keep_data_workers": is_kept, "folder": folder})
        run = Run(kind, Trial(steady())).train(3)
        found.append((run.reports, run.save(folder / "saved")))
        processes = [int(path.name) for path in folder.iterdir() if path.name.isdecimal()]
        assert len(processes) == (2 if is_kept else 3 * (2 + 1)), "one batch is validated, by one process"
        del run
        assert not [one for one in processes if psutil.pid_exists(one)], "they end with their trainer"
    assert found[0] == found[1]


class KeptWorkers(LoadedAhead):
    keep_data_workers = True


def test_process_that_is_sent_what_a_kept_loader_loads_has_it_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where processes are not forked."""
    monkeypatch.setattr(loaders, "_seed_process", lambda seed: None)
    trainer = Run(KeptWorkers, Trial(steady())).train(1).trainer
    sent = pickle.loads(pickle.dumps(trainer._loaders[0]._loader.dataset))
    [(x, y)] = sent.__getitems__(loaders._Place(1, 7, [3, 5]))
    assert (x.shape, y.shape) == ((2, 8), (2,))


def test_the_learning_rate_of_a_step_is_the_value_at_its_samples(tmp_path: Path) -> None:
    rates: list[float] = []

    class Watched(Net):
        def step(self, batch: Any) -> None:
            rates.append(self.opt.param_groups[0]["lr"])
            super().step(batch)

    Run(Watched, Trial([BASE | {"batch_size": 50}] * 2, lambda time: {"lr": time})).train(2)
    assert rates == [0.0, 0.5, 1.0, 1.5]


def test_a_new_value_leaves_optimizer_state_and_other_groups_alone() -> None:
    """Trap 6 of notes/stages.md, section 2.4: the momentum is lost where the optimizer is built anew."""

    class TwoGroups(Net):
        def optimizer(self, hp: Mapping[str, Any], model: Any) -> Any:
            decayed = {"params": list(model[0].parameters()), "weight_decay": hp["weight_decay"]}
            return torch.optim.SGD([decayed, {"params": list(model[4].parameters())}], hp["lr"], hp["momentum"])

    trainer = Run(TwoGroups, Trial([BASE])).train(1).trainer
    optimizer, states = trainer.opt, [state["momentum_buffer"].clone() for state in trainer.opt.state.values()]
    trainer.update({"lr": 0.5, "weight_decay": 0.25})
    assert trainer.opt is optimizer
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.5]
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.25, 0]
    assert all(map(torch.equal, states, (state["momentum_buffer"] for state in optimizer.state.values())))


def test_evaluate_changes_nothing() -> None:
    """Trap 5 of notes/stages.md, section 2.4."""

    class Careless(Net):
        def metrics(self, model: Any, data: Any) -> Mapping[str, Any]:
            assert not model.training
            assert not torch.is_grad_enabled()
            random.random(), np.random.rand(), torch.rand(1)  # noqa: NPY002
            return super().metrics(model, data)

    run = Run(Careless, Trial([BASE]))
    run.train(1)
    run.trainer.net[1].eval()

    def state() -> list[Any]:
        numpy_state: Any = np.random.get_state()  # noqa: NPY002
        modes = [module.training for module in run.trainer.net.modules()]
        generators = [random.getstate(), numpy_state[1].tolist(), torch.get_rng_state().tolist()]
        return [modes, generators, [value.tolist() for value in run.trainer.net.state_dict().values()]]

    before = state()
    assert run.trainer.evaluate() == run.trainer.evaluate() == run.reports[0]
    assert state() == before


def test_metrics_are_mean_loss_and_accuracy_and_a_loss_of_ones_own_alone() -> None:
    class Squares(Net):
        def loss(self, model: Any, batch: Any) -> Any:
            x, y = batch
            return ((model(x)[:, 0] - y) ** 2).mean()

    report = Run(Net, Trial([BASE])).train(1).reports[0]
    assert set(report) == {"loss", "accuracy"}
    assert set(Run(Squares, Trial([BASE])).train(1).reports[0]) == {"loss"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"batch_size": 101}, "batch_size=101 is larger than the training data, which has 100 samples"),
        ({"batch_size": 0}, "batch_size=0 is not a number of samples"),
        ({"batch_size": 1.5}, "batch_size=1.5 is not a number of samples"),
    ],
)
def test_a_batch_size_that_cannot_be_is_an_error(values: Values, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Run(Net, Trial([BASE | values])).train(1)


def test_a_batch_larger_than_a_unit_is_an_error() -> None:
    with pytest.raises(UsageError, match="batch_size=80 is larger than a unit of training, which has 70 samples"):
        Run(InsideEpochs, Trial([BASE | {"batch_size": 80}])).train(1)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (blobs, "must return two things"),
        (lambda: ((torch.zeros(3), torch.zeros(4)), None), "differ in length"),
        (lambda: (torch.utils.data.DataLoader(Noisy()), None), "A DataLoader has an order of its own"),
        (lambda: (itertools.count(), None), "A count has an order of its own"),
        (lambda: (torch.zeros(0, 8), None), "no sample"),
    ],
)
def test_data_of_which_the_order_cannot_be_owned_is_an_error(data: Callable[[], Any], words: str) -> None:
    class Wrong(Net):
        def data(self, hp: Mapping[str, Any]) -> Any:
            found = data()
            return found[0] if data is blobs else found

    with pytest.raises(UsageError, match=words):
        Run(Wrong, Trial([BASE]))


def test_a_checkpoint_of_other_data_is_an_error(tmp_path: Path) -> None:
    Run(Net, Trial([BASE])).train(1).save(tmp_path / "saved")
    with pytest.raises(UsageError, match="made with 100 samples in a unit of training, and now there are 70"):
        Run(InsideEpochs, Trial([BASE]), 1, tmp_path / "saved")


def test_a_checkpoint_of_another_optimizer_for_the_same_values_is_an_error(tmp_path: Path) -> None:
    class Other(Net):
        def optimizer(self, hp: Mapping[str, Any], model: Any) -> Any:
            return torch.optim.Adagrad(model.parameters(), hp["lr"])

    Run(Net, Trial([BASE])).train(1).save(tmp_path / "saved")
    with pytest.raises(UsageError, match=r"a checkpoint of SGD of .6. parameters, and optimizer.. now returns Adagrad"):
        Run(Other, Trial([BASE]), 1, tmp_path / "saved")


def test_a_unit_that_would_leave_a_batch_of_one_sample_trains_and_resumes(tmp_path: Path) -> None:
    assert is_resumed_bit_by_bit(OneSampleLeft, [BASE | {"batch_size": 8}] * 4, tmp_path)
