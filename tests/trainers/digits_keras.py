"""A small CNN on the digits in Keras, with all that a checkpoint can lose. Needs tensorflow."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import keras

from asyncsearch.trainers.keras.trainer import KerasTrainer
from tests.trainers.digits import images

layers: Any = keras.layers


class KerasDigits(KerasTrainer):
    channels = 4
    train_on = 256

    def model(self, hp: Mapping[str, Any]) -> Any:
        return keras.Sequential(
            [
                layers.Conv2D(self.channels, 3, padding="same"),
                layers.BatchNormalization(),
                layers.ReLU(),
                layers.MaxPooling2D(2),
                layers.Conv2D(2 * self.channels, 3, padding="same", activation="relu"),
                layers.Flatten(),
                layers.Dropout(0.2),
                layers.Dense(10, activation="softmax"),
            ]
        )

    def optimizer(self, hp: Mapping[str, Any]) -> Any:
        return keras.optimizers.SGD(hp["lr"], hp["momentum"])

    def data(self, hp: Mapping[str, Any]) -> Any:
        x, y = self.trial.once(images)
        x = x[..., None]
        return (x[: self.train_on], y[: self.train_on]), (x[-300:], y[-300:])

    def evaluate(self) -> dict[str, Any]:
        """Report beside loss and accuracy what tells any two states of the network apart."""
        state = b"".join(weights.tobytes() for weights in self.net.get_weights())
        digest = hashlib.blake2b(state, digest_size=6).digest()
        return {**super().evaluate(), "weights": int.from_bytes(digest, "big")}
