"""A small CNN on the digits in torch, with all that a checkpoint can lose. Needs torch."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch

from asyncsearch.trainers.torch.trainer import TorchTrainer
from tests.trainers.digits import images

nn: Any = torch.nn


def tensors() -> tuple[Any, Any]:
    pixels, labels = images()
    return torch.from_numpy(pixels)[:, None], torch.from_numpy(labels)


class TorchDigits(TorchTrainer):
    channels = 4
    train_on = 256

    def model(self, hp: Mapping[str, Any]) -> Any:
        few, many = self.channels, 2 * self.channels
        return nn.Sequential(
            nn.Conv2d(1, few, 3, padding=1),
            nn.BatchNorm2d(few),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(few, many, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(16 * many, 10),
        )

    def optimizer(self, hp: Mapping[str, Any], model: Any) -> Any:
        return torch.optim.SGD(model.parameters(), hp["lr"], hp["momentum"])

    def data(self, hp: Mapping[str, Any]) -> Any:
        x, y = self.trial.once(tensors)
        return (x[: self.train_on], y[: self.train_on]), (x[-300:], y[-300:])

    def evaluate(self) -> dict[str, Any]:
        """Report beside loss and accuracy what tells any two states of the network apart."""
        state = b"".join(tensor.numpy().tobytes() for tensor in self.net.state_dict().values())
        digest = hashlib.blake2b(state, digest_size=6).digest()
        return {**super().evaluate(), "weights": int.from_bytes(digest, "big")}
