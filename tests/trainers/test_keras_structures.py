"""Which Keras trainers are alike: a stack is traced with the values of its first member, for all the others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
tensorflow: Any = pytest.importorskip("tensorflow")
keras: Any = pytest.importorskip("keras")

from asyncsearch.trainers.keras.packs.units import by_structure  # noqa: E402  # needs tensorflow
from tests.shares import first, takes_long  # noqa: E402
from tests.trainers.keras_pack_trainers import (  # noqa: E402
    FEATURES,
    MODELS,
    OPTIMIZERS,
    Net,
    both,
    layers,
    numbered,
    softmax,
    trainer,
)

crossentropy: Any = keras.losses.sparse_categorical_crossentropy


@pytest.fixture(autouse=True)
def _double_precision() -> Iterator[None]:
    before = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_floatx(before[0])
    keras.config.set_dtype_policy(before[1])


class Scale:
    """A value of a class that nobody knows."""

    def __init__(self, scale: float) -> None:
        self.scale = scale


class Scaled(keras.losses.Loss):  # type: ignore[misc]
    """A loss whose configuration does not tell its scale."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def call(self, y: Any, predicted: Any) -> Any:
        return self.scale * crossentropy(y, predicted)


class Scaling(layers.Layer):  # type: ignore[misc]
    """A layer whose configuration does not tell its scale."""

    def __init__(self, scale: Any) -> None:
        super().__init__()
        self.scale = scale

    def get_config(self) -> Any:
        return super().get_config()

    def call(self, x: Any) -> Any:
        return x * getattr(self.scale, "scale", self.scale)


class Subclassed(keras.Model):  # type: ignore[misc]
    """A model with parts in a list, and an object."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.hidden, self.last, self.drop = [layers.Dense(4), layers.Dense(3)], softmax(), layers.Dropout(0.1)
        self.scale = Scale(scale)

    def get_config(self) -> Any:
        return {}

    def call(self, x: Any) -> Any:
        for layer in self.hidden:
            x = layer(x)
        return self.last(self.drop(x) * self.scale.scale)


def functional(scale: float) -> Any:
    x = keras.Input((FEATURES,))
    return keras.Model(x, softmax()(layers.Dense(4)(x) * scale))


def activated(scale: float) -> Any:
    def activation(x: Any) -> Any:
        return x * scale

    return keras.Sequential([layers.Dense(4, activation=activation), softmax()])


def sequential(*parts: Any) -> Any:
    return keras.Sequential([layers.Dense(4), *parts, softmax()])


def added(tensor: Any) -> Any:
    """Return a layer of Keras that has got a tensor."""
    layer = layers.Dense(4)
    layer.added = tensor
    return layer


NETS: dict[str, Callable[[float], Any]] = {
    "object in a layer": lambda scale: sequential(Scaling(Scale(scale))),
    "number in a layer": lambda scale: sequential(Scaling(scale)),
    "array in a layer": lambda scale: sequential(Scaling(tensorflow.constant([scale], "float64").numpy())),
    "tensor in a layer of Keras": lambda scale: sequential(added(tensorflow.constant([scale]))),
    "lambda": lambda scale: sequential(layers.Lambda(lambda x: x * scale)),
    "default of a lambda": lambda scale: sequential(layers.Lambda(lambda x, by=scale: x * by)),
    "activation": activated,
    "functional": functional,
    "subclassed": Subclassed,
    "regularizer": lambda scale: sequential(layers.Dense(4, kernel_regularizer=keras.regularizers.L2(scale))),
    "rate": lambda scale: sequential(layers.Dropout(scale / 10)),
    "precision": lambda scale: sequential(layers.Dense(4, dtype="float64" if scale < 1.5 else "mixed_bfloat16")),
    "frozen": lambda scale: sequential(layers.Dense(4, trainable=scale < 1.5)),
}


class ByNet(Net):
    """Its ``net`` names how the model depends on the scale."""

    def model(self, hp: Mapping[str, Any]) -> Any:
        keras.utils.set_random_seed(hp["number"])
        return NETS[hp["net"]](hp["scale"])


class OwnLoss(Net):
    """Its loss reads the hyper-parameters."""

    def loss(self, y: Any, predicted: Any) -> Any:
        return self.hp["scale"] * crossentropy(y, predicted)


class ClosedLoss(Net):
    def model(self, hp: Mapping[str, Any]) -> Any:
        scale = hp["scale"]
        self.loss = lambda y, predicted: scale * crossentropy(y, predicted)
        return super().model(hp)


class LossObject(Net):
    def model(self, hp: Mapping[str, Any]) -> Any:
        self.loss = Scaled(hp["scale"])
        return super().model(hp)


class LossInList(Net):
    def model(self, hp: Mapping[str, Any]) -> Any:
        self.loss = [Scaled(hp["scale"])]
        return super().model(hp)


class PlainMethod(Net):
    """Its loss is a method that reads nothing of its trainer."""

    def loss(self, y: Any, predicted: Any) -> Any:
        return crossentropy(y, predicted)


def structures(kind: type[Any], scales: list[float], **values: Any) -> int:
    """Return how many structures trainers with some scales have."""
    found = by_structure([trainer(kind, {"number": n, "scale": s, **values}) for n, s in enumerate(scales)])
    assert all(structure is not None for structure, _ in found)
    return len(found)


LOSSES = (ClosedLoss, LossObject, LossInList)


@pytest.mark.parametrize("net", NETS)
def test_what_a_model_computes_with_decides_which_are_alike(net: str) -> None:
    assert structures(ByNet, [1.0, 2.0, 1.0], net=net) == 2


@pytest.mark.parametrize("kind", LOSSES)
def test_what_a_loss_computes_with_decides_which_are_alike(kind: type[Any]) -> None:
    assert structures(kind, [1.0, 2.0, 1.0]) == 2


def test_a_loss_that_reads_its_trainer_is_that_of_one_member_only() -> None:
    assert structures(OwnLoss, [1.0, 2.0]) == 2
    assert structures(PlainMethod, [1.0, 2.0]) == 1


@pytest.mark.parametrize("kind", first([LossObject, OwnLoss]))
def test_members_with_losses_of_their_own_train_as_alone(kind: type[Any]) -> None:
    assert both(kind, [[{"number": n, "scale": 1.0 + n}] for n in range(2)], units=1) < 1e-12


class OwnMetrics(Net):
    """One of them has one metric more."""

    def model(self, hp: Mapping[str, Any]) -> Any:
        self.metrics = ("accuracy", "sparse_categorical_crossentropy")[: 1 + hp["number"] % 2]
        return super().model(hp)


def test_members_with_other_metrics_report_their_own() -> None:
    assert both(OwnMetrics, numbered(4), units=1) < 1e-12


class Small(Net):
    batch_size = 4


@takes_long  # of fewer steps: test_keras_packs.py
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "optimizer"),
    [*((kind, "adam") for kind in sorted(set(MODELS) - {"lstm"})), *(("dropout", one) for one in OPTIMIZERS)],
)
def test_members_are_within_1e_9_of_their_own_training_after_200_steps(kind: str, optimizer: str) -> None:
    assert both(Small, numbered(2, kind=kind, optimizer=optimizer), units=20, is_eager=False) < 1e-9
