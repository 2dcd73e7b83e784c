"""The callbacks of Tune for Keras and Lightning, made when a program imports them, of the framework's own classes."""

from __future__ import annotations

import functools
import importlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.ray.callbacks.reported_metrics import NamedMetrics, chosen, events_of
from asyncsearch.ray.trial.checkpoints import DirCheckpoint
from asyncsearch.ray.trial.present_trial import report

_KERAS = ("tensorflow.keras.callbacks", "keras.callbacks")
_LIGHTNING = ("lightning.pytorch.callbacks", "pytorch_lightning.callbacks")


def _base(modules: Sequence[str], name: str) -> Any:
    """Return the class of the framework that the program has imported, else of the first one that is installed."""
    for module in sorted(modules, key=lambda one: one.partition(".")[0] not in sys.modules):
        try:
            return getattr(importlib.import_module(module), name)
        except ImportError:
            continue
    raise UsageError(f"This callback needs {modules[-1].partition('.')[0]}, which is not installed.")


def _keras_hook(event: str) -> Any:
    def hook(self: Any, *given: Any, **named: Any) -> None:
        logs = named.get("logs") or (given[-1] if given and isinstance(given[-1], dict) else {})
        self.handle(event, logs)

    return hook


_KERAS_EVENTS = [f"{what}_{when}" for what in ("epoch", "train", "test", "predict") for when in ("begin", "end")]
_KERAS_EVENTS += [f"{what}_batch_{when}" for what in ("train", "test", "predict") for when in ("begin", "end")]


@functools.cache
def keras_callback(name: str, *, saves: bool) -> type[Any]:
    """Return the callback of Keras of a name; ``saves``: whether it saves the model beside each report."""

    class KerasReport(_base(_KERAS, "Callback")):  # type: ignore[misc]
        """Reports the logs of Keras; an epoch is one report."""

        def __init__(
            self,
            metrics: NamedMetrics = None,
            filename: str | None = None,
            on: str | Sequence[str] | None = None,
            *,
            report_metrics_on: str | Sequence[str] | None = None,
            checkpoint_on: str | Sequence[str] | None = None,
        ) -> None:
            super().__init__()
            self._metrics = metrics
            default = "epoch_end" if on is None else on
            self._reports = events_of(default if report_metrics_on is None else report_metrics_on)
            self._saves = events_of(default if checkpoint_on is None else checkpoint_on) if saves else frozenset[str]()
            self._file = filename or "model.keras"

        def handle(self, event: str, logs: dict[str, Any]) -> None:
            """Report, if the event is one of those that were named."""
            if event not in self._reports | self._saves:
                return
            metrics = chosen(self._metrics, logs, name)
            if event not in self._saves:
                report(metrics)
                return
            with tempfile.TemporaryDirectory(prefix="asyncsearch-checkpoint-") as folder:
                file = self._file if self._file.endswith((".keras", ".h5")) else f"{self._file}.keras"
                self.model.save(str(Path(folder) / file))
                report(metrics, checkpoint=DirCheckpoint(folder))

    for event in _KERAS_EVENTS:
        setattr(KerasReport, f"on_{event}", _keras_hook(event))
    KerasReport.__name__ = name
    return KerasReport


def _lightning_hook(event: str) -> Any:
    def hook(self: Any, trainer: Any, *_given: Any, **_named: Any) -> None:
        self.handle(event, trainer)

    return hook


_LIGHTNING_EVENTS = [
    f"{what}_{when}"
    for what in ("train", "validation", "test", "train_epoch", "validation_epoch", "test_epoch", "fit")
    for when in ("start", "end")
] + ["train_batch_end", "validation_batch_end"]


@functools.cache
def lightning_callback(name: str, *, saves: bool, event: str = "validation_end") -> type[Any]:
    """Return the callback of Lightning of a name; ``event``: where it reports if the program does not say."""

    class LightningReport(_base(_LIGHTNING, "Callback")):  # type: ignore[misc]
        """Reports ``trainer.callback_metrics``, except of the sanity check, which trains nothing."""

        def __init__(
            self,
            metrics: NamedMetrics = None,
            filename: str = "checkpoint",
            save_checkpoints: bool = True,
            on: str | Sequence[str] | None = None,
        ) -> None:
            super().__init__()
            self._metrics, self._file = metrics, filename
            self._events, self._saves = events_of(on or event), saves and save_checkpoints

        def handle(self, at: str, trainer: Any) -> None:
            """Report, if the event is one of those that were named."""
            if at not in self._events or getattr(trainer, "sanity_checking", False) or trainer.global_rank != 0:
                return
            values = {key: value.item() for key, value in trainer.callback_metrics.items()}
            metrics = chosen(self._metrics, values, name)
            if not self._saves:
                report(metrics)
                return
            with tempfile.TemporaryDirectory(prefix="asyncsearch-checkpoint-") as folder:
                trainer.save_checkpoint(str(Path(folder) / self._file), weights_only=False)
                report(metrics, checkpoint=DirCheckpoint(folder))

    for at in _LIGHTNING_EVENTS:
        setattr(LightningReport, f"on_{at}", _lightning_hook(at))
    LightningReport.__name__ = name
    return LightningReport


def __getattr__(name: str) -> Any:
    framework, _, callback = name.partition("_")
    if framework == "keras":
        return keras_callback(callback, saves="Checkpoint" in callback)
    if framework == "lightning":
        is_train = callback == "RayTrainReportCallback"
        kind = {"event": "train_epoch_end"} if is_train else {}
        return lightning_callback(callback, saves=is_train or "Checkpoint" in callback, **kind)
    raise AttributeError(name)
