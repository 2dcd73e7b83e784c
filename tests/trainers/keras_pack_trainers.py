"""Small Keras trainers in double precision with each kind of layer, and how they train together and alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from asyncsearch import PackOutcome
from asyncsearch.trainers.keras.trainer import KerasTrainer
from tests.trainers.tools import Trial, Values

layers: Any = keras.layers
SAMPLES, FEATURES, CLASSES = 40, 6, 3


def blobs() -> Any:
    x = np.random.default_rng(0).normal(size=(SAMPLES, FEATURES))
    return x, (x[:, 0] > 0).astype("int64") + (x[:, 1] > 0)


DATA = blobs()


@keras.saving.register_keras_serializable("tests")
class Tokens(layers.Layer):  # type: ignore[misc]
    """Makes token numbers of the features."""

    def call(self, x: Any) -> Any:
        return keras.ops.cast(keras.ops.clip(keras.ops.round(2 * x), -3, 3), "int32") + 3


@keras.saving.register_keras_serializable("tests")
class SelfAttention(layers.Layer):  # type: ignore[misc]
    """Features that attend to each other."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.attention = layers.MultiHeadAttention(2, 3, dropout=0.2, use_bias=False)  # a bias of keys has no gradient

    def build(self, shape: Any) -> None:
        self.attention.build(shape, shape)

    def call(self, x: Any, training: bool | None = None) -> Any:
        return self.attention(x, x, training=training)


def softmax() -> Any:
    return layers.Dense(CLASSES, activation="softmax")


MODELS: dict[str, Callable[[], list[Any]]] = {
    "dense": lambda: [layers.Dense(5, activation="relu", kernel_regularizer="l2"), softmax()],
    "conv": lambda: [
        layers.Reshape((2, 3, 1)), layers.Conv2D(4, 2, padding="same", activation="relu"), layers.MaxPooling2D((1, 2)),
        layers.Conv2D(3, 2, padding="same"), layers.Flatten(), softmax(),
    ],
    "batch_norm": lambda: [layers.Dense(5, use_bias=False), layers.BatchNormalization(), layers.ReLU(), softmax()],
    "dropout": lambda: [layers.Dense(8, activation="tanh"), layers.Dropout(0.3), layers.Dropout(0.1), softmax()],
    "embedding": lambda: [Tokens(), layers.Embedding(7, 2), layers.Flatten(), softmax()],
    "layer_norm": lambda: [layers.Dense(5), layers.LayerNormalization(), layers.Activation("gelu"), softmax()],
    "attention": lambda: [layers.Reshape((3, 2)), SelfAttention(), layers.Flatten(), softmax()],
    "lstm": lambda: [layers.Reshape((3, 2)), layers.LSTM(4), softmax()],
}  # fmt: skip
OPTIMIZERS: dict[str, Callable[[int], Any]] = {
    "sgd": lambda n: keras.optimizers.SGD(0.05 + 0.02 * n, weight_decay=0.01),
    "momentum": lambda n: keras.optimizers.SGD(0.05 + 0.02 * n, 0.9 - 0.1 * n),
    "nesterov": lambda n: keras.optimizers.SGD(0.05 + 0.02 * n, 0.9 - 0.1 * n, nesterov=True),
    "adam": lambda n: keras.optimizers.Adam(0.01 + 0.005 * n, 0.9 - 0.1 * n, 0.99, 10.0 ** (n - 7)),
    "adamw": lambda n: keras.optimizers.AdamW(0.01 + 0.005 * n, weight_decay=0.1 * n, amsgrad=True),
    "rmsprop": lambda n: keras.optimizers.RMSprop(0.01 + 0.005 * n, 0.9 - 0.1 * n, 0.5 - 0.1 * n, centered=True),
    "adagrad": lambda n: keras.optimizers.Adagrad(0.05 + 0.02 * n, 0.1 * (1 + n)),
}


class Net(KerasTrainer):
    """Its layers, optimizer and seed of dropout are in its hyper-parameters."""

    batch_size = 16

    def model(self, hp: Mapping[str, Any]) -> Any:
        keras.utils.set_random_seed(hp["number"])
        return keras.Sequential(MODELS[hp.get("kind", "dropout")]())

    def optimizer(self, hp: Mapping[str, Any]) -> Any:
        made = OPTIMIZERS[hp.get("optimizer", "momentum")](hp["number"])
        if "lr" in hp:
            made.learning_rate = hp["lr"]
        return made

    def data(self, hp: Mapping[str, Any]) -> Any:
        return DATA, DATA


def trainer(kind: type[Any], *units: Values, inside: Any = None, seed: int = 5) -> Any:
    found = kind()
    found.trial = Trial(units, inside, seed)
    found.setup(found.trial.params)
    return found


def numbered(count: int, **values: Any) -> list[list[Values]]:
    return [[{"number": number, **values}] for number in range(count)]


def begin_unit(one: Any) -> None:
    changed = {name: value for name, value in one.trial.params.items() if one.hp.get(name) != value}
    if changed:
        one.update(changed)


def train_alone(one: Any, is_eager: bool = True) -> Mapping[str, Any]:
    """Train and evaluate a unit, by default without tracing, which takes longer than a few units."""
    begin_unit(one)
    tf.config.run_functions_eagerly(is_eager)
    try:
        one.train()
        one.trial.resource += 1
        metrics: Mapping[str, Any] = one.evaluate()
    finally:
        tf.config.run_functions_eagerly(False)
    return metrics


def train_together(trainers: Sequence[Any], outcomes: list[PackOutcome] | None = None) -> list[Mapping[str, Any]]:
    """Train and evaluate a unit, and add the outcome to ``outcomes``."""
    for one in trainers:
        begin_unit(one)
    outcome = type(trainers[0]).train_pack(trainers)
    if outcomes is not None:
        outcomes.append(outcome)
    for one in trainers:
        one.trial.resource += 1
    return list(type(trainers[0]).evaluate_pack(trainers))


def state(one: Any) -> list[Any]:
    """Return all that a checkpoint holds."""
    values = [np.asarray(variable.value.numpy(), dtype=np.float64) for _, variable in one._variables()]
    return [*values, np.array([one.samples, one.steps])]


def difference(one: Any, other: Any) -> float:
    """Return the largest difference between the states of two trainers; infinite where their shapes differ."""
    mine, theirs = state(one), state(other)
    if [value.shape for value in mine] != [value.shape for value in theirs]:
        return float("inf")
    return max(float(np.abs(a - b).max()) for a, b in zip(mine, theirs, strict=True) if a.size)


def gap(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Return the largest difference between metrics; infinite where their names or order differ."""
    if list(one) != list(other):
        return float("inf")
    return max(abs(float(one[name]) - float(other[name])) for name in one)


def both(
    kind: type[Any],
    settings: Sequence[Sequence[Values]],
    units: int = 2,
    inside: Any = None,
    is_eager: bool = True,
    outcomes: list[PackOutcome] | None = None,
) -> float:
    """Train trainers packed and alone by units, and return the largest difference of states and metrics.

    Args:
        outcomes: gets the outcome of each packed unit.
    """
    packed, alone = ([trainer(kind, *each, inside=inside) for each in settings] for _ in range(2))
    worst = 0.0
    for _ in range(units):
        metrics = train_together(packed, outcomes), [train_alone(one, is_eager) for one in alone]
        worst = max(worst, *map(gap, *metrics), *map(difference, packed, alone))
    return worst


def saved(one: Any, path: Path) -> Path:
    one.save(path)
    return path
