"""``check`` on Keras: what a KerasTrainer saves is proved, and each ingredient that is dropped from it is named."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncsearch.checking import CheckResult, check
from asyncsearch.trainable import Trainer

pytest.importorskip("tensorflow")
keras: Any = pytest.importorskip("keras")

from tests.shares import takes_long  # noqa: E402
from tests.trainers.test_keras import ADAM, BASE, Half, Net, blobs  # noqa: E402  # needs tensorflow


def checked(trainable: type[Trainer], **options: Any) -> CheckResult:
    return check(trainable, BASE | {"batch_size": 28}, processes=False, units=3, cut=2, **options)


class Small:
    """One or two steps a unit, without tracing: what is checked here is trained some fifteen times."""

    run_eagerly = True
    samples_per_unit: int | None = 28

    def data(self, hp: Mapping[str, Any]) -> Any:
        x, y = blobs()
        return (x[:40], y[:40]), (x, y)


class Complete(Small, Net):
    def _train_batch(self, batch: Any) -> None:
        x, y = batch
        self.opt.learning_rate = 0.1 / (1 + self.steps)
        super()._train_batch((x + np.float32(random.random() + np.random.rand()), y))  # noqa: NPY002


def keeping(trainer: Any, variables: list[Any], path: Path) -> None:
    """Load, and leave some variables as they were."""
    before = [variable.value.numpy() for variable in variables]
    Net.load(trainer, path)
    for variable, value in zip(variables, before, strict=True):
        variable.assign(value)


class NoWeights(Complete):
    def load(self, path: Path) -> None:
        keeping(self, self.net.trainable_variables, path)


class NoOptimizer(Complete):
    def load(self, path: Path) -> None:
        keeping(self, self.opt.variables, path)


class NoBuffers(Complete):
    def load(self, path: Path) -> None:
        keeping(self, self.net.layers[1].non_trainable_variables, path)


class SavedByKeras(Complete):
    """As ``save_weights`` does it, which leaves out the state of Dropout's seed."""

    def load(self, path: Path) -> None:
        keeping(self, [variable for variable in self.net.variables if "seed_generator" in variable.path], path)


class NoOffset(Complete):
    def load(self, path: Path) -> None:
        super().load(path)
        self.samples = 0


class NoCounter(Complete):
    def load(self, path: Path) -> None:
        super().load(path)
        self.steps = 0


class NoScaler(Small, Half):
    """Its scale is so large that gradients overflow at first, and steps are left out."""

    def optimizer(self, hp: Mapping[str, Any]) -> Any:
        return keras.optimizers.LossScaleOptimizer(super().optimizer(hp), initial_scale=2.0**19)

    def load(self, path: Path) -> None:
        inner = {id(variable) for variable in self.opt.inner_optimizer.variables}
        keeping(self, [variable for variable in self.opt.variables if id(variable) not in inner], path)


class OrderOfItsOwn(Complete):
    def setup(self, hp: dict[str, Any]) -> None:
        super().setup(hp)
        self.permutation = np.arange(40)

    def order(self, epoch: int, size: int) -> Any:
        self.permutation = self.permutation[super().order(epoch, size)]
        return self.permutation


class NoNumpy(Complete):
    def _seed(self, purpose: str, number: int) -> None:
        state = np.random.get_state()  # noqa: NPY002
        super()._seed(purpose, number)
        if purpose == "unit":
            np.random.set_state(state)  # noqa: NPY002


@pytest.mark.slow
def test_a_keras_trainer_is_proved() -> None:
    assert checked(Complete)


@takes_long
@pytest.mark.slow
def test_a_keras_trainer_that_is_traced_is_proved() -> None:
    assert check(Net, ADAM, processes=False, units=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trainable", "kind"),
    [
        (NoWeights, "weights"),
        *(
            pytest.param(trainable, kind, marks=takes_long)
            for trainable, kind in [
                (NoOptimizer, "optimizer"),
                (SavedByKeras, "generator"),
                (NoBuffers, "buffers"),
                (NoOffset, "offset"),
                (NoCounter, "counter"),
                (NoScaler, "scaler"),
                (OrderOfItsOwn, "order"),
                (NoNumpy, "numpy generator"),
            ]
        ),
    ],
)
def test_each_ingredient_that_is_dropped_is_named_and_nothing_else(trainable: type[Trainer], kind: str) -> None:
    """Trap 2 of notes/stages.md, section 2.4."""
    result = checked(trainable)
    assert result.forgotten is not None, "the training at one go and the resumed one are the same"
    assert result.names == (kind,), str(result)
    assert result.forgotten[0].is_proved
