"""Studies that share a folder, with a trainer that writes down each unit that it trains.

As a script it is one of them: ``python -m tests.system.several FOLDER NAME [STOP_AT]``.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from asyncsearch import FIFO, GridSearch, Study, Trainer, choice
from asyncsearch.sequences import multistep
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.trial import Params
from tests.system.tools import Gate

UNITS = 6
TRIALS = 6
DISTINCT = 2 * (UNITS + 2 + 1)
"""Two batch sizes; for each one whole course, one that parts from it at 4, and one that parts from that at 5."""
FOLDER = "ASYNCSEARCH_TEST_FOLDER"
REMOTE = "ASYNCSEARCH_TEST_REMOTE"
"""Set: studies reach their folders as they would reach an object store, though these are on disk."""


class Counting(Trainer):
    """Its state is all that it was trained with, so a wrong checkpoint or a gap changes its metrics."""

    def setup(self, hp: Params) -> None:
        self.now = dict(hp)
        self.past: list[list[float]] = []

    def update(self, hp: Params) -> None:
        self.now |= hp

    def train(self) -> None:
        self.past.append([self.now["lr"], self.now.get("batch_size", 32)])
        assert len(self.past) == self.trial.resource + 1, "a unit was left out, or trained twice in a row"
        folder = Path(os.environ[FOLDER])
        with (folder / "units").open("a") as file:
            file.write(json.dumps(self.past) + "\n")
        gate = Gate(folder)
        if self.trial.resource + 1 == int(os.environ.get("STOP_AT", "0")) and not (folder / "passed").exists():
            (folder / "passed").write_text("")
            gate.wait()

    def evaluate(self) -> dict[str, float]:
        return {"loss": sum(lr * (at + 1) + size / 1000 for at, (lr, size) in enumerate(self.past))}

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.past))

    def load(self, path: Path) -> None:
        self.past = json.loads(path.read_text())


SPACE: dict[str, Any] = {
    "lr": multistep(0.1, milestones=choice([4], [5], [4, 5])),
    "batch_size": choice(32, 64),
}


def make(folder: Path, name: str, **options: Any) -> Study:
    os.environ[FOLDER] = str(folder)
    settings: dict[str, Any] = {
        "space": SPACE,
        "metric": "loss",
        "mode": "min",
        "searcher": GridSearch(),
        "scheduler": FIFO(max_resource=UNITS),
        "store": folder / "studies" / name,
        "backend": "processes",
        "version": "v1",
    }
    study = Study(Counting, **(settings | options))
    if os.environ.get(REMOTE) and study.shared is not None:
        runnable = study._runnable
        assert runnable is not None
        runnable.store, study.shared = (FsspecStore(f"file://{store.url}") for store in (study.store, study.shared))
        runnable.definition = msgspec.structs.replace(runnable.definition, shared=study.shared)
    return study


def run(study: Study, parallelism: int = 2) -> Study:
    return study.run(parallelism=parallelism, display="none")


def units(folder: Path) -> Counter[str]:
    """Return how often each unit was trained, by all that was trained up to its end."""
    file = folder / "units"
    return Counter(file.read_text().splitlines() if file.exists() else ())


def results(study: Study) -> list[Any]:
    return [(trial.state, trial.resource, trial.params, study.history(trial)) for trial in study.trials]


def main() -> None:
    folder, name = Path(sys.argv[1]), sys.argv[2]
    if len(sys.argv) > 3:
        os.environ["STOP_AT"] = sys.argv[3]
    study = run(make(folder, name, resume=True), parallelism=1)
    sys.stdout.write(f"best: {study.best_value}\n")


if __name__ == "__main__":
    main()
