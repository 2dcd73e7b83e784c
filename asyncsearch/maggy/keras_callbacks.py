"""The classes of ``maggy.callbacks``; this module imports keras."""

from __future__ import annotations

from typing import Any

import keras

from asyncsearch.errors import UsageError


class KerasBatchEnd(keras.callbacks.Callback):  # type: ignore[misc]  # not typed here
    """Broadcasts a metric of the training at the end of each batch."""

    def __init__(self, reporter: Any, metric: str = "loss") -> None:
        super().__init__()
        self.reporter, self.metric_name = reporter, metric

    def on_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.reporter.broadcast(_value(self.metric_name, logs))


class KerasEpochEnd(keras.callbacks.Callback):  # type: ignore[misc]  # not typed here
    """Broadcasts a metric at the end of each epoch, with the epoch as its step."""

    def __init__(self, reporter: Any, metric: str = "val_loss") -> None:
        super().__init__()
        self.reporter, self.metric_name = reporter, metric

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.reporter.broadcast(_value(self.metric_name, logs), epoch)


_OTHER = {"acc": "accuracy", "val_acc": "val_accuracy", "accuracy": "acc", "val_accuracy": "val_acc"}
"""Keras has renamed them: a program has the name of its day."""


def _value(name: str, logs: dict[str, Any] | None) -> float:
    found = logs or {}
    for one in (name, _OTHER.get(name, name)):
        if one in found:
            return float(found[one])
    raise UsageError(f"There is no metric {name!r} to broadcast; there is {', '.join(map(repr, found)) or 'none'}.")
