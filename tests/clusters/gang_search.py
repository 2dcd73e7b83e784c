"""A search whose trials train on two workers each, which a test submits to a cluster; alone in its file, as search.py.

    gang_search.py FOLDER STORE    run it, and write what each trial reached into FOLDER/results

In each of two trials a rank kills itself once, at its second unit: there is a file FOLDER/killed-TRIAL then.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

from asyncsearch import FIFO, GridSearch, Study, choice
from asyncsearch.trainers.keras.gangs.connection import open_ring

UNITS = 4
KILLED = {1: 1, 2: 0}
"""Trial -> the rank that is killed."""


class Line:
    """Weights of a line and their momentum."""

    def __init__(self) -> None:
        self.weights, self.momentum = np.full(4, 0.5), np.zeros(4)

    def loss(self, x: Any) -> float:
        return float(((x @ self.weights - x.sum(1)) ** 2).mean())

    def step(self, gradient: Any, rate: float) -> None:
        self.momentum = 0.9 * self.momentum + gradient
        self.weights = self.weights - rate * self.momentum

    def save(self, path: Path) -> None:
        path.write_bytes(np.stack([self.weights, self.momentum]).tobytes())

    def load(self, path: Path) -> None:
        self.weights, self.momentum = np.frombuffer(path.read_bytes()).reshape(2, 4).copy()


class Train:
    """Fits a line; the environment that is sent to the cluster has no torch, so a ring of sockets sums gradients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, trial: Any) -> None:
        line, ring = Line(), open_ring(trial.gang) if trial.gang is not None else None
        x = np.random.default_rng(1).normal(size=(72, 4))
        for unit in trial.epochs(save=line.save, load=line.load):
            for batch in np.split(x, 3):
                mine = batch[trial.rank :: trial.world_size]
                gradient = 2 * mine.T @ (mine @ line.weights - mine.sum(1)) / len(batch)
                self.die_once(trial, unit)
                line.step(gradient if ring is None else ring.sum(gradient), 0.01 * (1 + trial.params["number"]))
            trial.report(loss=line.loss(x))

    def die_once(self, trial: Any, unit: int) -> None:
        number = trial.params["number"]
        is_due = trial.world_size > 1 and unit == 2 and KILLED.get(number) == trial.rank
        if is_due and not (self.folder / f"killed-{number}").exists():
            (self.folder / f"killed-{number}").touch()
            os.kill(os.getpid(), signal.SIGKILL)


def make_study(folder: Path, store: str, workers_per_trial: int, backend: Any) -> Study:
    return Study(
        Train(folder),
        space={"number": choice(0, 1, 2, 3)},
        searcher=GridSearch(),
        scheduler=FIFO(max_resource=UNITS),
        metric="loss",
        mode="min",
        store=store,
        name="gangs-on-a-cluster",
        save_every=1,
        backend=backend,
        workers_per_trial=workers_per_trial,
    )


def main() -> None:
    from pyspark.sql import SparkSession

    SparkSession.builder.appName("gangs").getOrCreate()
    folder, store = Path(sys.argv[1]), sys.argv[2]
    write_results(folder, make_study(folder, store, 2, "spark").run(parallelism=2))


def write_results(folder: Path, study: Study) -> None:
    lines = [f"{trial.resource} {trial.value!r} {trial.failures}" for trial in study.trials]
    (folder / "results").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
