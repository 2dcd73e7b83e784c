"""``check`` on torch: what a TorchTrainer saves is proved, and each ingredient that is dropped from it is named."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncsearch.checking import CheckResult, check
from asyncsearch.trainable import Trainer

torch: Any = pytest.importorskip("torch")

from tests.shares import takes_long  # noqa: E402
from tests.trainers.test_torch import ADAM, BASE, Clipped, InsideEpochs, Net, blobs  # noqa: E402  # needs torch


def checked(trainable: type[Trainer], **options: Any) -> CheckResult:
    return check(trainable, BASE, processes=False, **options)


class Complete(InsideEpochs):
    """Draws from every generator in training, and depends on the number of steps."""

    def step(self, batch: Any) -> None:
        x, y = batch
        noise = random.random() + np.random.rand() + torch.rand(()).item()  # noqa: NPY002
        for group in self.opt.param_groups:
            group["lr"] = 0.1 / (1 + self.steps)
        super().step((x + noise, y))


class NoWeights(Complete):
    def load(self, path: Path) -> None:
        fresh = [parameter.detach().clone() for parameter in self.net.parameters()]
        super().load(path)
        with torch.no_grad():
            for parameter, value in zip(self.net.parameters(), fresh, strict=True):
                parameter.copy_(value)


class NoOptimizer(Complete):
    def load(self, path: Path) -> None:
        super().load(path)
        self.opt = self.optimizer(self.hp, self.net)


class NoBuffers(Complete):
    def load(self, path: Path) -> None:
        super().load(path)
        self.net[1].reset_running_stats()


class NoOffset(Complete):
    def load(self, path: Path) -> None:
        super().load(path)
        self.samples = 0


class NoCounter(Complete):
    def load(self, path: Path) -> None:
        super().load(path)
        self.steps = 0


class Growing(Clipped):
    """Its scale grows until gradients overflow, every few steps, and a step is left out then."""

    def _build(self, hp: dict[str, Any]) -> None:
        super()._build(hp)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=3)


class QuietNoScaler(Clipped):
    """Loses where the scale stands between two of its changes, which a few units do not show."""

    def load(self, path: Path) -> None:
        super().load(path)
        self.scaler = torch.amp.GradScaler("cpu")


class NoScaler(Growing):
    def load(self, path: Path) -> None:
        super().load(path)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3)


class OrderOfItsOwn(Complete):
    """Shuffles what is shuffled already, as many loops do: the permutation is a state then."""

    def setup(self, hp: dict[str, Any]) -> None:
        super().setup(hp)
        self.permutation = np.arange(100)

    def order(self, epoch: int, size: int) -> Any:
        self.permutation = self.permutation[super().order(epoch, size)]
        return self.permutation


class SeededOnce(Complete):
    """Seeds by hand, once, and saves no generator."""

    left_out = ""

    def _seed(self, purpose: str, number: int) -> None:
        states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
        super()._seed(purpose, number)
        if purpose == "unit":
            restore = {"python": random.setstate, "numpy": np.random.set_state, "torch": torch.set_rng_state}
            for name, state in zip(restore, states, strict=True):
                if name == self.left_out:
                    restore[name](state)


class NoPython(SeededOnce):
    left_out = "python"


class NoNumpy(SeededOnce):
    left_out = "numpy"


class NoTorch(SeededOnce):
    left_out = "torch"


class GeneratorOfItsOwn(Complete):
    def setup(self, hp: dict[str, Any]) -> None:
        super().setup(hp)
        self.noise = torch.Generator().manual_seed(self.trial.seed)

    def step(self, batch: Any) -> None:
        x, y = batch
        super().step((x + torch.rand(x.shape, generator=self.noise), y))


class Warming(torch.nn.Module):  # type: ignore[misc]
    """Counts in an attribute, which no state_dict has."""

    def __init__(self) -> None:
        super().__init__()
        self.calls_count = 0

    def forward(self, x: Any) -> Any:
        self.calls_count += self.training
        return x * (1 - 0.5**self.calls_count)


class CounterInside(Complete):
    def model(self, hp: Mapping[str, Any]) -> Any:
        return torch.nn.Sequential(Warming(), torch.nn.Linear(8, 3))


def test_a_counter_inside_of_a_module_is_named_by_its_place() -> None:
    result = checked(CounterInside)
    assert result.names == ("counter",)
    assert result.forgotten is not None
    assert result.forgotten[0].places == ("self.net.0.calls_count",)


def test_a_torch_trainer_is_proved() -> None:
    assert checked(Complete)
    assert checked(Growing)
    assert check(Net, ADAM, processes=False, units=3)


@pytest.mark.parametrize(
    ("trainable", "kind"),
    [
        (NoWeights, "weights"),
        (NoOptimizer, "optimizer"),
        (NoBuffers, "buffers"),
        (NoOffset, "offset"),
        (NoCounter, "counter"),
        (NoScaler, "scaler"),
        (OrderOfItsOwn, "order"),
        (NoPython, "python generator"),
        (NoNumpy, "numpy generator"),
        (NoTorch, "torch generator"),
        (GeneratorOfItsOwn, "generator"),
    ],
)
def test_each_ingredient_that_is_dropped_is_named_and_nothing_else(trainable: type[Trainer], kind: str) -> None:
    """Trap 2 of notes/stages.md, section 2.4."""
    result = checked(trainable)
    assert result.forgotten is not None, "the training at one go and the resumed one are the same"
    assert result.names == (kind,), str(result)
    assert result.forgotten[0].is_proved


def test_what_is_not_restored_and_had_no_effect_yet_is_noted() -> None:
    result = checked(QuietNoScaler)
    assert result.ok
    assert [finding.kind for finding in result.noted] == ["scaler"]
    assert "not restored, and without effect in so few units: scaler: self.scaler" in str(result)
    assert checked(Clipped).noted == ()


class Plain(Trainer):
    """Written by hand, and evaluated in training mode: batch norm learns from it."""

    def setup(self, hp: dict[str, Any]) -> None:
        torch.manual_seed(self.trial.seed)
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3))
        self.opt = torch.optim.SGD(self.net.parameters(), hp["lr"], hp["momentum"])

    def train(self) -> None:
        x, y = blobs()
        self.opt.zero_grad()
        torch.nn.functional.cross_entropy(self.net(x), y).backward()
        self.opt.step()
        self.net.eval()
        self.net[1].running_mean.mul_(0.5)
        self.net.train()

    def evaluate(self) -> Mapping[str, Any]:
        x, y = blobs()
        return {"loss": torch.nn.functional.cross_entropy(self.net(x), y)}

    def save(self, path: Path) -> None:
        torch.save({"net": self.net.state_dict(), "opt": self.opt.state_dict()}, path)

    def load(self, path: Path) -> None:
        state = torch.load(path)
        self.net.load_state_dict(state["net"])
        self.opt.load_state_dict(state["opt"])


def test_an_evaluation_in_training_mode_is_said() -> None:
    result = checked(Plain)
    assert result.forgotten is None
    assert result.names == ("buffers",)


@takes_long
@pytest.mark.slow
def test_a_torch_trainer_is_refuted_in_processes_of_their_own() -> None:
    assert check(NoTorch, BASE, units=2).names == ("torch generator",)
