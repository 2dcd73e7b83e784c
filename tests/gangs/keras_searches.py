"""Searches of ``KerasTrainer`` on several workers, in double precision. Needs tensorflow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from asyncsearch import FIFO, Study, choice, loguniform
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.store.base_store import Store
from asyncsearch.trainable import Trainable
from asyncsearch.trainers.keras.trainer import KerasTrainer
from tests.digits import load_digits
from tests.gangs.searches import Happen, nothing

UNITS = 3
layers: Any = keras.layers


class KerasDigits(KerasTrainer):
    """A small network on scikit-learn's digits, in batches that neither two nor four ranks can share evenly."""

    batch_size = 50
    samples_per_unit = 201
    clip_grad_norm = 0.2

    def setup(self, hp: dict[str, Any]) -> None:
        keras.config.set_floatx("float64")
        super().setup(hp)

    def data(self, hp: Mapping[str, Any]) -> Any:
        x, y = load_digits()
        return (x[:201] / 16.0, y[:201]), (x[1200:1501] / 16.0, y[1200:1501])

    def model(self, hp: Mapping[str, Any]) -> Any:
        return keras.Sequential([layers.Dense(16, activation="tanh"), layers.Dense(10, activation="softmax")])

    def optimizer(self, hp: Mapping[str, Any]) -> Any:
        return keras.optimizers.Adam(hp.get("lr", 0.01) * (1 + hp.get("number", 0)))


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    """Let all of Keras have double precision, as ``KerasDigits`` in a process of its own, and then what it had."""
    before = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_dtype_policy("float64")
    try:
        yield
    finally:
        keras.config.set_floatx(before[0])
        keras.config.set_dtype_policy(before[1])


def keras_alone(study: Study, trials: int | None = None) -> Study:
    """Search on one worker, which is this process."""
    with double_precision():
        return study.run(trials, display="none")


def digits_where(happen: Happen = nothing) -> type[KerasDigits]:
    """Return a trainer to whose ranks something happens; a new process does not trace, which takes most of its time."""

    class Happening(KerasDigits):
        run_eagerly = True

        def _train_batch(self, batch: Any) -> None:
            happen(self.trial, self.trial.resource + 1, "step")
            super()._train_batch(batch)

        def evaluate(self) -> Mapping[str, Any]:
            happen(self.trial, self.trial.resource + 1, "end")
            return super().evaluate()

    return Happening


def keras_study(store: Path, gang: Any, trainable: Trainable = KerasDigits, trials: int = 0, **options: Any) -> Study:
    """Return a study of learning rates, or of so many numbers."""
    settings: dict[str, Any] = {"backend": "processes", "scheduler": FIFO(max_resource=UNITS)}
    space: dict[str, Any] = {"lr": loguniform(1e-3, 1e-1)}
    if trials:
        space, settings["searcher"] = {"number": choice(*range(trials))}, GridSearch()
    settings |= {"name": "digits"} | options  # the keys of checkpoints have it
    return Study(trainable, space=space, metric="loss", mode="min", store=store, workers_per_trial=gang, **settings)


def keras_weights(store: Store) -> dict[Any, Mapping[str, Any]]:
    """Return the weights of every checkpoint of a store."""
    found = dict[Any, Mapping[str, Any]]()
    for checkpoint in store.checkpoints():
        with store.fetch(checkpoint) as folder, np.load(folder / "checkpoint" / "variables.npz") as saved:
            found[checkpoint] = {
                name: np.frombuffer(saved[name].tobytes(), np.float64) for name in saved if name.startswith("model/")
            }
    return found
