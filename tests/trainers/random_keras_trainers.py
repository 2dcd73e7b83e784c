"""Keras trainers from a grammar of hooks: layers, optimizer, loss, and what their methods draw, read and change."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from asyncsearch.trainers.keras.trainer import KerasTrainer
from tests.trainers.keras_pack_trainers import CLASSES, DATA

layers: Any = keras.layers


class Scale(layers.Layer):  # type: ignore[misc]
    """Reads Python values and counts its calls in a variable."""

    def __init__(self, is_counting: bool) -> None:
        super().__init__()
        self.options, self.is_counting = {"scale": [1.0]}, is_counting

    def build(self, shape: Any) -> None:
        if self.is_counting:
            self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, x: Any) -> Any:
        if self.is_counting:
            self.calls.assign_add(1.0)
            x = x * (1 + 0.01 * keras.ops.cast(self.calls, x.dtype))
        return x * self.options["scale"][0]

    def get_config(self) -> dict[str, Any]:
        return {"is_counting": self.is_counting}


class Focal(keras.losses.Loss):  # type: ignore[misc]
    """A loss with a number."""

    def __init__(self) -> None:
        super().__init__()
        self.power = 1.0

    def call(self, y: Any, predicted: Any) -> Any:
        return keras.losses.sparse_categorical_crossentropy(y, predicted) * self.power


BODIES = {
    "dense": lambda: [layers.Dense(5, activation="tanh", kernel_regularizer=keras.regularizers.L2(0.01))],
    "dropout": lambda: [layers.Dense(6), layers.Dropout(0.2)],
    "noise": lambda: [layers.GaussianNoise(0.1), layers.Dense(4)],
    "norm": lambda: [layers.Dense(5, use_bias=False), layers.BatchNormalization(momentum=0.8), layers.ReLU()],
    "lstm": lambda: [layers.Reshape((3, 2)), layers.LSTM(3, dropout=0.2)],
    "counting": lambda: [layers.Dense(4), Scale(True)],
    "scaling": lambda: [layers.Dense(4), Scale(False)],
}
OPTIMIZERS = {
    "sgd": lambda lr: keras.optimizers.SGD(lr, momentum=0.8),
    "adam": lambda lr: keras.optimizers.Adam(lr / 10, epsilon=1e-3),
    "rmsprop": lambda lr: keras.optimizers.RMSprop(lr / 10, epsilon=1e-3),
}
LOSSES = ("name", "method", "object", "attribute")
UPDATES = ("none", "rate", "scale", "loss", "trainable", "weights", "draws", "optimizer", "labels", "regularizer")
EVALUATIONS = ("default", "draws", "subset", "lookahead", "stochastic", "in place")


class Random(KerasTrainer):
    """Does what its choices say."""

    choices: Mapping[str, Any] = {}

    def model(self, hp: Mapping[str, Any]) -> Any:
        keras.utils.set_random_seed(hp["number"])
        self.weight, self.drawn = 1.0, [0.0]
        kind = self.choices["loss"]
        self.loss = {"method": self.own_loss, "object": Focal(), "attribute": self.lambda_loss(1.0)}.get(
            kind, self.loss
        )
        body = [part for name in self.choices["body"] for part in BODIES[name]()]
        net = keras.Sequential([*body, layers.Dense(CLASSES + hp.get("wider", 0), activation="softmax")])
        net.build((None, 6))
        self.put(net, hp)
        return net

    def own_loss(self, y: Any, predicted: Any) -> Any:
        found = keras.losses.sparse_categorical_crossentropy(y, predicted)
        return found * self.hp["cost"] * self.weight

    def lambda_loss(self, power: float) -> Any:
        return lambda y, predicted: power * keras.losses.sparse_categorical_crossentropy(y, predicted)

    def put(self, net: Any, hp: Mapping[str, Any]) -> None:
        """Put the value ``v`` where it belongs."""
        v, where = hp["v"], self.choices["update"]
        for layer in net.layers:
            if where == "rate" and isinstance(layer, layers.Dropout):
                layer.rate = v
            if where == "scale" and isinstance(layer, Scale):
                layer.options["scale"][0] = 1 + v
            if where == "regularizer" and getattr(layer, "kernel_regularizer", None) is not None:
                layer.kernel_regularizer.l2 = v
        if where == "trainable":
            net.layers[0].trainable = v > 0.3
        if where == "loss":
            self.weight = 1 + v
            if self.choices["loss"] == "object":
                self.loss.power = 1 + v
            if self.choices["loss"] == "attribute":
                self.loss = self.lambda_loss(1 + v)

    def update(self, hp: dict[str, Any]) -> None:
        super().update(hp)
        where = self.choices["update"]
        self.put(self.net, self.hp)
        if where == "weights":
            for variable in self.net.variables:
                if "seed" not in variable.path:
                    variable.assign(variable * 0.9)
        if where == "optimizer":
            for variable in self.opt.variables[2:]:
                variable.assign(variable * 0.5)
        if where == "draws":
            self.note_draws()
            self.net.trainable_variables[0].assign_add(
                tf.fill(self.net.trainable_variables[0].shape, self.drawn[-1] / 9)
            )
        if where == "labels":
            self.mine[1][:5] = (self.mine[1][:5] + hp["number"] if "number" in hp else self.mine[1][:5] + 1) % CLASSES

    def note_draws(self) -> None:
        number = float(tf.random.uniform(())) + float(keras.random.uniform(()))
        self.drawn.append(random.random() + np.random.rand() + number)  # noqa: NPY002

    def optimizer(self, hp: Mapping[str, Any]) -> Any:
        return OPTIMIZERS[self.choices["optimizer"]](hp["lr"])

    def data(self, hp: Mapping[str, Any]) -> Any:
        x, y = DATA
        self.mine, self.valid = (x[:30].copy(), y[:30].copy()), (x[28:].copy(), y[28:].copy())
        return self.mine, self.valid

    def evaluate(self) -> Mapping[str, Any]:
        kind = self.choices["evaluate"]
        if kind == "lookahead":
            for variable in self.net.trainable_variables:
                variable.assign(variable * 0.95)
        if kind == "stochastic":
            both = [self.net(self.valid[0], training=True) for _ in range(2)]
            return {"loss": float(np.mean((both[0] - both[1]) ** 2)), **super().evaluate()}
        if kind == "subset":
            rows = np.random.permutation(len(self.valid[0]))[:4]  # noqa: NPY002
            return {"loss": float(np.log(self.net(self.valid[0][rows])).sum()), "first": float(rows[0])}
        if kind == "in place":
            self.valid[0][:, 0] *= 0.9
            self.mine[0][0] *= 0.9
        found = dict(super().evaluate())
        if kind == "draws":
            self.note_draws()
        return {**found, "drawn": self.drawn[-1], "draws": float(len(self.drawn))}

    def save(self, path: Path) -> None:
        super().save(path)
        if self.choices["saves"]:
            self.note_draws()
        parts = [part.tolist() for part in (*self.mine, *self.valid)]
        (path / "own.json").write_text(json.dumps([self.weight, self.drawn, parts]), encoding="utf-8")

    def load(self, path: Path) -> None:
        super().load(path)
        weight, self.drawn, parts = json.loads((path / "own.json").read_text(encoding="utf-8"))
        for mine, saved in zip((*self.mine, *self.valid), parts, strict=True):
            mine[...] = np.asarray(saved, dtype=mine.dtype)
        self.weight = weight


class Plain(Random):
    """Has the default evaluation and the default hooks, so that all of it may be one computation."""

    evaluate = KerasTrainer.evaluate
    save = KerasTrainer.save
    load = KerasTrainer.load


def random_trainer(seed: int) -> tuple[type[Any], list[list[dict[str, Any]]]]:
    """Return a trainer class, and the values of each unit of each member."""
    draw = random.Random(seed)
    evaluation = draw.choice(EVALUATIONS)
    updating = draw.choice(UPDATES)
    is_plain = evaluation == "default" and updating not in ("draws", "labels", "loss") and draw.random() < 0.7
    choices = {
        "body": draw.sample([name for name in BODIES if name != "lstm"], draw.choice([1, 2])),
        "optimizer": draw.choice(list(OPTIMIZERS)),
        "loss": draw.choice(LOSSES),
        "update": updating,
        "evaluate": evaluation,
        "saves": draw.random() < 0.5,
    }
    if draw.random() < 0.2:
        choices["body"] = ["lstm"]
    values = {"batch_size": draw.choice([10, 10, 8]), "clip_grad_norm": draw.choice([None, None, 0.5])}
    varied = draw.choice(["lr", "lr", "v", "cost", "wider"])
    members = []
    for number in range(3):
        own: dict[str, Any] = values | {"number": number, "lr": 0.1 * (1 + number), "cost": 1.0, "v": 0.2}
        own |= {
            "lr": dict[str, Any](),
            "v": {"v": 0.2 + 0.1 * number},
            "cost": {"cost": 1.0 + number},
            "wider": {"wider": number % 2},
        }[varied]
        members.append([own, own | {"v": own["v"] + 0.3}, own | {"v": own["v"] + 0.3}])
    kind = type("Random", (Plain if is_plain else Random,), {"choices": choices, "metrics": ("accuracy",)})
    return kind, members
