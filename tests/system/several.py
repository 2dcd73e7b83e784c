"""Studies that share a folder, with a trainer that writes down each unit that it trains.

As a script it is one of them: ``python -m tests.system.several FOLDER NAME [STOP_AT]``.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from asyncsearch import FIFO, GridSearch, Study, choice
from asyncsearch.sequences import multistep
from asyncsearch.store.far.store import FsspecStore
from tests.system.counting import FOLDER, Counting

UNITS = 6
TRIALS = 6
DISTINCT = 2 * (UNITS + 2 + 1)
"""Two batch sizes; for each one whole course, one that parts from it at 4, and one that parts from that at 5."""
REMOTE = "ASYNCSEARCH_TEST_REMOTE"
"""Set: studies reach their folders as they would reach an object store, though these are on disk."""


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


def make_here(folder: Path, name: str, **options: Any) -> Study:
    """Return a study that trains in this process: what studies find of each other does not depend on where they run."""
    return make(folder, name, backend="inline", **options)


def run(study: Study, parallelism: int = 2) -> Study:
    return study.run(parallelism=parallelism, display="none")


def run_here(study: Study) -> Study:
    return run(study, parallelism=1)


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
