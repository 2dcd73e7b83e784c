"""Reference searches, one for each kind of decision, and the stores that a crash of their drivers would leave.

They run inline: one worker, so that the same records come in the same order each time.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from asyncsearch import ASHA, FIFO, PBT, GridSearch, Hyperband, Study, choice, uniform
from asyncsearch.sequences import multistep
from asyncsearch.store.local.store import LocalSegment
from asyncsearch.trainable import TrialContext
from tests.system.trained import Checkpointed

SEARCHES: dict[str, dict[str, Any]] = {
    "stages": {
        "space": {"lr": choice(*(multistep(0.5, milestones=[at]) for at in (2, 3, 4, 5)), 0.5)},
        "searcher": GridSearch(),
        "scheduler": FIFO(max_resource=6),
    },
    "stages in rungs": {
        "space": {"lr": choice(*(multistep(rate, milestones=[at]) for rate in (0.5, 0.25) for at in (2, 4, 6)))},
        "searcher": GridSearch(),
        "scheduler": ASHA(max_resource=9),
    },
    "brackets": {"scheduler": Hyperband(max_resource=4, reduction_factor=2), "num_trials": 9},
    "population": {"scheduler": PBT(max_resource=6, perturbation_interval=2), "num_trials": 4},
    "model": {"searcher": "tpe", "scheduler": ASHA(max_resource=4, reduction_factor=2), "num_trials": 12},
}
"""By name: how each differs from the others, and its number of trials."""
Results = list[tuple[Any, ...]]


def train(trial: TrialContext) -> None:
    """Fail when a unit is trained twice or left out."""
    model = Checkpointed()
    for unit in trial.epochs(save=model.save, load=model.load):
        model.train(unit)
        trial.report(loss=(trial.params["lr"] - 0.3) ** 2 + 1 / unit)


def run_reference(name: str, store: Path | str) -> Study:
    """Begin a reference search, or go on with it, to its end."""
    options: dict[str, Any] = {"space": {"lr": uniform(0.0, 1.0)}} | SEARCHES[name]
    num_trials = options.pop("num_trials", None)
    study = Study(
        train, metric="loss", mode="min", name="reference", store=store, backend="inline", resume=True, **options
    )
    study.run(num_trials, display="none")
    return Study.open(store)


def results(study: Study) -> Results:
    """Return each trial as users see it, without times and counts of work."""
    return [(t.id, t.params, t.state, t.resource, t.value, t.best, study.history(t)) for t in study.trials]


class Crash(NamedTuple):
    """What one append of a driver made durable, and the store as it was then."""

    store: Path
    segment: str
    lines: list[bytes]

    def leave(self, root: Path, kept: int, cut: int = 0) -> None:
        """Leave the store as if the append had written so many lines, the last one without its last ``cut`` bytes."""
        shutil.copytree(self.store, root)
        path = root / "journal" / self.segment
        left_out = sum(len(line) for line in self.lines[kept:]) + cut
        os.truncate(path, path.stat().st_size - left_out)


@contextlib.contextmanager
def crashes(root: Path, folder: Path) -> Iterator[list[Crash]]:
    """Copy a store after each append to its journal."""
    found: list[Crash] = []
    append = LocalSegment.append

    def copied(self: LocalSegment, data: bytes) -> None:
        append(self, data)
        store = folder / str(len(found))
        _copy(root, store)
        found.append(Crash(store, self.name, data.splitlines(keepends=True)))

    LocalSegment.append = copied  # type: ignore[method-assign]
    try:
        yield found
    finally:
        LocalSegment.append = append  # type: ignore[method-assign]


def _copy(source: Path, target: Path) -> None:
    """Copy a folder in which another thread renames and removes; the journal, which comes before, is still."""
    target.mkdir()
    for entry in sorted(os.scandir(source), key=lambda entry: entry.name != "journal"):
        with contextlib.suppress(FileNotFoundError):
            if entry.is_dir():
                _copy(Path(entry.path), target / entry.name)
            else:
                shutil.copyfile(entry.path, target / entry.name)
