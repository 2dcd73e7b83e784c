"""A value that a traced step of Keras holds counts from the step on at which it changed; evaluations change nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

tf: Any = pytest.importorskip("tensorflow")
keras: Any = pytest.importorskip("keras")

from asyncsearch.trainers.keras.traced_values import HeldValues  # noqa: E402
from asyncsearch.trainers.keras.trainer import KerasTrainer  # noqa: E402  # needs tensorflow
from tests.shares import first, takes_long  # noqa: E402
from tests.trainers.keras_pack_trainers import DATA  # noqa: E402
from tests.trainers.tools import Run, Trial  # noqa: E402

pytestmark = pytest.mark.usefixtures("double_precision")
layers: Any = keras.layers
SETTINGS = SimpleNamespace(factor=1.0)
WEIGHT = 1.0


class Scaled(layers.Layer):  # type: ignore[misc]
    """Reads values of each kind when it is traced."""

    scale = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.options: dict[str, Any] = {"factors": [1.0, 1.0]}
        self.inner = layers.Dropout(0.1, seed=3)
        self.function: Callable[[Any], Any] = lambda x: x

    def call(self, x: Any, training: bool = False) -> Any:
        x = self.inner(x, training=training)
        return self.function(x) * self.scale * self.options["factors"][1] * SETTINGS.factor * WEIGHT


class Fading(KerasTrainer):
    """Its hyper-parameter ``v`` is in the place that ``where`` names."""

    batch_size = 20
    where = "attribute"
    metrics: tuple[str, ...] = ()

    def model(self, hp: Mapping[str, Any]) -> Any:
        keras.utils.set_random_seed(1)
        self.weight, self.notes = 1.0, list[int]()
        self.loss = self.own_loss
        net = keras.Sequential(
            [layers.Dense(4, kernel_regularizer=keras.regularizers.L2(0.1)), Scaled(), layers.Dense(3)]
        )
        net.build((None, 6))
        self.put(net, hp["v"])
        return net

    def own_loss(self, y: Any, predicted: Any) -> Any:
        return self.weight * keras.losses.sparse_categorical_crossentropy(y, predicted, from_logits=True)

    def put(self, net: Any, v: float) -> None:
        CHANGES[self.where](self, net, v)

    def update(self, hp: dict[str, Any]) -> None:
        super().update(hp)
        self.notes.append(len(hp))  # is read by no function that is traced
        if "v" in hp:
            self.put(self.net, hp["v"])

    def optimizer(self, hp: Mapping[str, Any]) -> Any:
        return keras.optimizers.SGD(0.1, momentum=0.9)

    def data(self, hp: Mapping[str, Any]) -> Any:
        return DATA, DATA


def _freeze(trainer: Any, net: Any, v: float) -> None:
    net.layers[0].trainable = v < 0.5


def _unfreeze(trainer: Any, net: Any, v: float) -> None:
    net.layers[0].trainable = v > 0.5


def _set_loss(trainer: Any, net: Any, v: float) -> None:
    trainer.loss = lambda y, predicted: v * keras.losses.sparse_categorical_crossentropy(y, predicted, from_logits=True)


CHANGES: dict[str, Callable[[Any, Any, float], None]] = {
    "rate of a nested layer": lambda _, net, v: setattr(net.layers[1].inner, "rate", v / 2),
    "attribute": lambda _, net, v: setattr(net.layers[1], "scale", 1 + v),
    "nested container": lambda _, net, v: net.layers[1].options["factors"].__setitem__(1, 1 + v),
    "function": lambda _, net, v: setattr(net.layers[1], "function", lambda x: x + v),
    "regularizer": lambda _, net, v: setattr(net.layers[0].kernel_regularizer, "l2", v),
    "frozen": _freeze,
    "thawed": _unfreeze,
    "attribute of the trainer": lambda trainer, _, v: setattr(trainer, "weight", 1 + v),
    "loss": _set_loss,
    "global object": lambda trainer, net, v: setattr(SETTINGS, "factor", 1 + v),
    "global value": lambda trainer, net, v: globals().__setitem__("WEIGHT", 1 + v),
}
UNITS = [{"v": 0.2}, {"v": 0.8}, {"v": 0.8}]
END_TO_END = ("rate of a nested layer", "thawed", "loss", "attribute of the trainer")


def kind_with(place: str) -> type[Any]:
    return type("Fading", (Fading,), {"where": place})


@pytest.fixture(autouse=True)
def _globals() -> Iterator[None]:
    yield
    SETTINGS.factor = 1.0
    globals()["WEIGHT"] = 1.0


def built(place: str) -> Any:
    return Run(kind_with(place), Trial(UNITS)).trainer


@pytest.mark.parametrize("place", first(sorted(set(CHANGES) - {"loss"}), 4))
def test_a_value_that_a_trace_may_hold_is_seen_to_change(place: str) -> None:
    trainer = built(place)
    before = HeldValues(trainer)
    assert HeldValues(trainer) == before
    trainer.put(trainer.net, 0.8)
    assert HeldValues(trainer) != before


@pytest.mark.parametrize("place", first(END_TO_END))
def test_a_changed_value_counts_from_the_next_step_as_after_a_checkpoint(place: str, tmp_path: Path) -> None:
    whole = Run(kind_with(place), Trial(UNITS)).train(3)
    first = Run(kind_with(place), Trial(UNITS)).train(1)
    saved = first.save(tmp_path / "saved")
    resumed = Run(kind_with(place), Trial(UNITS), 1, tmp_path / "saved").train(3)
    assert first.reports + resumed.reports == whole.reports
    assert resumed.save(tmp_path / "resumed") == whole.save(tmp_path / "whole") != saved


def test_a_step_is_retraced_only_where_a_value_that_it_holds_has_changed() -> None:
    class Counted(Fading):
        where, traced = "attribute", 0

        def own_loss(self, y: Any, predicted: Any) -> Any:
            type(self).traced += 1
            return super().own_loss(y, predicted)

    run = Run(Counted, Trial([*UNITS, *UNITS[-1:] * 3]))
    run.train(1)
    once = Counted.traced
    run.train(2)
    assert Counted.traced == 2 * once
    run.train(6)
    assert Counted.traced == 2 * once


class WithFunction(keras.Model):  # type: ignore[misc]
    """Has a traced function of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.factor, self.last = 1.0, layers.Dense(3)

    def call(self, x: Any) -> Any:
        return self.scaled(self.last(x))

    @tf.function  # type: ignore[untyped-decorator]
    def scaled(self, x: Any) -> Any:
        return x * self.factor


def test_a_models_own_function_that_holds_a_changed_value_is_retraced_too() -> None:
    class Nested(Fading):
        def model(self, hp: Mapping[str, Any]) -> Any:
            return WithFunction()

        def update(self, hp: dict[str, Any]) -> None:
            KerasTrainer.update(self, hp)

    trainer = Run(Nested, Trial(UNITS)).trainer
    before = trainer.net(DATA[0]).numpy()
    trainer.net.factor = 2.0
    trainer._settle()
    assert np.allclose(trainer.net(DATA[0]).numpy(), 2 * before)


class Counting(layers.Layer):  # type: ignore[misc]
    """Counts its calls in a variable, and draws and keeps averages in evaluations, too."""

    def build(self, shape: Any) -> None:
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False)
        self.norm, self.seeds = layers.BatchNormalization(momentum=0.5), keras.random.SeedGenerator(3)
        self.norm.build(shape)

    def call(self, x: Any) -> Any:
        self.calls.assign_add(1.0)
        noise = keras.random.normal(keras.ops.shape(x), seed=self.seeds, dtype=x.dtype)
        return self.norm(x, training=True) + noise / (1 + self.calls)


class Stirring(Fading):
    metrics = ("mae",)

    def model(self, hp: Mapping[str, Any]) -> Any:
        keras.utils.set_random_seed(1)
        self.loss = "mse"
        lstm = layers.LSTM(3, dropout=0.3, seed=2)
        return keras.Sequential([Counting(), layers.Reshape((2, 3)), lstm, layers.Dense(1)])


class OwnStirring(Stirring):
    """Evaluates by calls of its own."""

    def evaluate(self) -> Mapping[str, Any]:
        guesses = [self.net(DATA[0], training=True) for _ in range(2)]
        return {"loss": float(np.mean((guesses[0] - guesses[1]) ** 2)), **super().evaluate()}


@pytest.mark.parametrize("kind", [Stirring, pytest.param(OwnStirring, marks=takes_long)])
def test_an_evaluation_restores_each_variable_that_it_changes(kind: type[Any], tmp_path: Path) -> None:
    once, often = (Run(kind, Trial([{"v": 0.2}] * 3)) for _ in range(2))
    once.train(1)
    often.train(1)
    assert [dict(often.trainer.evaluate()) for _ in range(2)] == once.reports * 2
    once.train(2)
    often.train(2)
    assert once.reports == often.reports
    assert once.save(tmp_path / "once") == often.save(tmp_path / "often")


def test_what_an_evaluation_of_ones_own_writes_into_weights_stays() -> None:
    class Lookahead(Fading):
        def evaluate(self) -> Mapping[str, Any]:
            weight = self.net.trainable_variables[0]
            weight.assign(weight * 0.5)
            return super().evaluate()

    trainer = built("attribute")
    before = trainer.net.trainable_variables[0].numpy()
    Lookahead.evaluate(_as(trainer, Lookahead))
    assert (trainer.net.trainable_variables[0].numpy() == before * 0.5).all()


def _as(trainer: Any, kind: type[Any]) -> Any:
    trainer.__class__ = kind
    return trainer


class Drawing(Fading):
    """Draws where it is traced."""

    def own_loss(self, y: Any, predicted: Any) -> Any:
        return super().own_loss(y, predicted * random.random() + np.random.rand())  # noqa: NPY002


def test_what_is_drawn_while_a_step_is_traced_is_that_of_its_unit(tmp_path: Path) -> None:
    whole = Run(Drawing, Trial([{"v": 0.2}] * 3)).train(3)
    first = Run(Drawing, Trial([{"v": 0.2}] * 3)).train(1)
    first.save(tmp_path / "saved")
    resumed = Run(Drawing, Trial([{"v": 0.2}] * 3), 1, tmp_path / "saved").train(3)
    assert first.reports + resumed.reports == whole.reports
