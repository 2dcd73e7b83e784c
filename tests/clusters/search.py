"""A search that tests submit to a cluster; alone in its file, because nothing else of the tests is there.

    search.py FOLDER STORE [parallelism]    run it, or go on with it

FOLDER is on this machine, as all executors are. Each unit leaves a line in FOLDER/units: trial, unit, executor.
Before unit WAITS_AT a trial waits until there is a file FOLDER/open; it then has a line in FOLDER/waiting: trial,
process, executor.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
import threading
from pathlib import Path
from typing import Any

from asyncsearch import ASHA, GridSearch, Study, choice

CONFIGURATIONS = 9
UNITS = 9
WAITS_AT = 2


def append(path: Path, *words: object) -> None:
    with path.open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


def executor() -> str:
    """Return the number of the executor of a standalone cluster, or the container of YARN."""
    log = re.search(r"executorId=(\w+)", os.environ.get("SPARK_LOG_URL_STDOUT", ""))
    return log[1] if log else os.environ.get("CONTAINER_ID", "none")


class Weights:
    """Grow as they should only if each unit is trained once, in order."""

    def __init__(self) -> None:
        self.units: list[int] = []

    def save(self, path: Path) -> None:
        path.write_bytes(pickle.dumps(self.units))

    def load(self, path: Path) -> None:
        self.units = pickle.loads(path.read_bytes())


class Train:
    """Trains, and waits where it is told to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, trial: Any) -> None:
        weights = Weights()
        for unit in trial.epochs(save=weights.save, load=weights.load):
            if unit == WAITS_AT and not (self.folder / "open").exists():
                append(self.folder / "waiting", trial.name, os.getpid(), executor())
                while not (self.folder / "open").exists():
                    threading.Event().wait(0.1)
            weights.units.append(unit)
            assert weights.units == list(range(1, unit + 1)), "a unit was trained twice or left out"
            append(self.folder / "units", trial.name, unit, executor())
            trial.report(loss=trial.params["x"] / unit)


def make_study(folder: Path, store: str) -> Study:
    return Study(
        Train(folder),
        space={"x": choice(*range(1, CONFIGURATIONS + 1))},
        searcher=GridSearch(),
        scheduler=ASHA(max_resource=UNITS, reduction_factor=3),
        metric="loss",
        mode="min",
        store=store,
        name="on-a-cluster",
        save_every=1,
        backend="spark",
        resume=True,
    )


def main() -> None:
    from pyspark.sql import SparkSession

    SparkSession.builder.appName("search").getOrCreate()
    folder, store, *parallelism = sys.argv[1:]
    study = make_study(Path(folder), store)
    study.run(parallelism=int(parallelism[0]) if parallelism else 2)
    sys.stdout.write(f"best: {study.best_trial.params['x']}\n")


if __name__ == "__main__":
    main()
