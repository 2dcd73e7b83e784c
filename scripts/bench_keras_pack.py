"""Packed training of ``KerasTrainer`` against the same trainers one after the other, in the same run.

``keras_mlp_16`` is CPU milliseconds of a unit of 16 MLPs 64-32-10 with dropout, 45 batches of 32, whose weights are
stacked; ``keras_cnn_8`` that of 8 CNNs with 8 and 16 channels. ``keras_mlp_16_unlike`` is that of 16 MLPs of different
widths, which share each batch and are sequential. ``_first`` is the first unit of each, tracing included, with its
evaluation.

    python scripts/bench_keras_pack.py      needs tensorflow
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from _bench import Figure, show

from asyncsearch import KerasTrainer, StandaloneTrial

ROUNDS = 2
X = np.random.default_rng(0).normal(size=(1437, 8, 8, 1)).astype("float32")
DATA = X, np.arange(len(X)) % 10
VALIDATION = X[:360], DATA[1][:360]
layers: Any = keras.layers


class MLP(KerasTrainer):
    """An MLP 64-32-10 with dropout."""

    def model(self, hp: Mapping[str, Any]) -> Any:
        hidden = layers.Dense(hp.get("width", 32), activation="relu")
        return keras.Sequential([layers.Flatten(), hidden, layers.Dropout(0.2), layers.Dense(10, activation="softmax")])

    def optimizer(self, hp: Mapping[str, Any]) -> Any:
        return keras.optimizers.SGD(hp["lr"], 0.9)

    def data(self, hp: Mapping[str, Any]) -> Any:
        return DATA, VALIDATION


class CNN(MLP):
    """A CNN with 8 and 16 channels."""

    def model(self, hp: Mapping[str, Any]) -> Any:
        return keras.Sequential(
            [
                *(layers.Conv2D(8, 3, padding="same", activation="relu"), layers.MaxPooling2D(2)),
                *(layers.Conv2D(16, 3, padding="same", activation="relu"), layers.Flatten()),
                layers.Dense(10, activation="softmax"),
            ]
        )


def trainers(kind: type[Any], count: int, *, is_unlike: bool = False) -> list[Any]:
    found = []
    for number in range(count):
        one = kind()
        one.trial = StandaloneTrial({"lr": 0.01 * (1 + number)} | ({"width": 20 + number} if is_unlike else {}))
        one.setup(one.trial.params)
        found.append(one)
    return found


def cpu_ms(unit: Callable[[], None]) -> float:
    began = time.process_time()
    unit()
    return (time.process_time() - began) * 1e3


def compared(name: str, kind: type[Any], count: int, *, is_unlike: bool = False) -> list[Figure]:
    packed, apart = (trainers(kind, count, is_unlike=is_unlike) for _ in range(2))

    def together() -> None:
        kind.train_pack(packed)

    def alone() -> None:
        for one in apart:
            one.train()

    first = [
        cpu_ms(lambda: (together(), kind.evaluate_pack(packed))),
        cpu_ms(lambda: (alone(), [one.evaluate() for one in apart])),
    ]
    # Not alternating: what trains alone sets TensorFlow's seed, after which the pack prepares its functions again.
    best = [min(cpu_ms(way) for _ in range(ROUNDS)) for way in (together, alone)]
    print(f"{name}: {best[0]:.0f} ms packed, {best[1]:.0f} ms apart; first {first[0]:.0f}, {first[1]:.0f}", flush=True)
    return [Figure(name, best[0], "ms", best[1]), Figure(f"{name}_first", first[0], "ms", first[1])]


def main() -> None:
    figures = [
        *compared("keras_mlp_16", MLP, 16),
        *compared("keras_cnn_8", CNN, 8),
        *compared("keras_mlp_16_unlike", MLP, 16, is_unlike=True),
    ]
    show("Keras: a unit packed, and one after the other (CPU time)", figures)


if __name__ == "__main__":
    main()
