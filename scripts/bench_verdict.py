"""The cost of a decision to the trial that it is about: units beyond a stop, processes lost to it, promotions in place.

Figures: ``units_beyond_<scheduler>`` counts the units that were begun after their trial was over; ``processes_lost``
the processes that stops of long units have ended; ``in_place`` is the share of promotions that need no checkpoint;
``aside_s`` the seconds of a search with large states that are not training; ``entry_s`` those of a search whose
function takes half a second to begin. The baseline is the checkout ``--before``, measured in turns with this one;
without it, 0.

    python scripts/bench_verdict.py [--before ../earlier] [--unit 8] [--stops 20] [--megabytes 400] [--only in_place]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _bench import Figure, show

from asyncsearch import ASHA, PBT, Hyperband, MedianStopping, Study, TrialContext, uniform
from asyncsearch.actions import Promote
from asyncsearch.journal.opening import read_records

ENTRY_S, SAVED_UNIT_S = 0.5, 0.5


def logged(folder: Path, unit_s: float, *, entry_s: float = 0.0, megabytes: int = 0) -> Callable[[TrialContext], None]:
    """Make a trial that writes a line for each unit that it begins, with its process."""
    lines = str(folder / "units")

    def train(trial: TrialContext) -> None:
        time.sleep(entry_s)
        state = np.zeros(max(1, megabytes * 125_000))

        def save(path: Path) -> None:
            np.save(path.with_suffix(".npy"), state)
            path.with_suffix(".npy").rename(path)

        def load(path: Path) -> None:
            np.load(path.open("rb"))

        for unit in trial.epochs(save=save, load=load):
            with open(lines, "a") as file:
                file.write(f"{trial.name} {os.getpid()}\n")
            time.sleep(unit_s)
            trial.report(loss=(trial.params["x"] - 0.3) ** 2 + 1 / unit)

    return train


class Searched(NamedTuple):
    """What is left of a search."""

    trials: list[Any]
    units: list[str]
    """A line for each unit that was begun: its trial and its process."""
    seconds: float
    promotions: int
    in_place: int
    """How many of them were of a trial that went on where it was."""


def searched(scheduler: Any, trials: int, workers: int, unit_s: float, **options: Any) -> Searched:
    """Search in processes."""
    with tempfile.TemporaryDirectory() as name:
        began_s = time.monotonic()
        study = Study(
            logged(Path(name), unit_s, **options),
            space={"x": uniform(0.0, 1.0)},
            metric="loss",
            mode="min",
            scheduler=scheduler,
            seed=1,
            store=Path(name) / "study",
            backend="processes",
        ).run(trials, parallelism=workers, display="none")
        seconds = time.monotonic() - began_s
        actions = [action for record in read_records(study.store) for action in record.actions]
        promotions = [action for action in actions if isinstance(action, Promote)]
        in_place = [action for action in actions if type(action).__name__ == "ExtendWork" and action.stages]
        units = (Path(name) / "units").read_text().splitlines()
        return Searched(list(study.trials), units, seconds, len(promotions), len(in_place))


def beyond(scheduler: Any) -> float:
    """Return how many units were begun after their trial was over."""
    found = searched(scheduler, 40, 2, 0.05)
    return len(found.units) - sum(trial.trained for trial in found.trials)


def processes_lost(unit_s: float, stops: int) -> float:
    """Return how many processes were ended by stops of units of so many seconds."""
    found = searched(ASHA(max_resource=9, variant="stopping"), stops, 2, unit_s)
    print(f"{sum(trial.state.name == 'STOPPED' for trial in found.trials)} stops", file=sys.stderr)
    return len({line.split()[1] for line in found.units}) - 2


def in_place() -> float:
    """Return the share of the promotions of 256 trials on 4 workers that went on where they were."""
    found = searched(ASHA(max_resource=81), 256, 4, 0.002)
    return found.in_place / found.promotions


def aside_s(megabytes: int) -> float:
    """Return the seconds of a search of 8 trials with large states that are not training."""
    found = searched(ASHA(max_resource=9), 8, 1, SAVED_UNIT_S, megabytes=megabytes)
    return found.seconds - SAVED_UNIT_S * len(found.units)


def entry_s() -> float:
    """Return the seconds of two workers in a search whose function takes a while to begin."""
    return 2 * searched(ASHA(max_resource=27), 27, 2, 0.05, entry_s=ENTRY_S).seconds


def parts(unit_s: float, stops: int, megabytes: int) -> Mapping[str, Callable[[], float]]:
    """Return the measurements by their names."""
    pbt = PBT(max_resource=9, perturbation_interval=3)
    return {
        "units_beyond_stopping": lambda: beyond(ASHA(max_resource=9, variant="stopping")),
        "units_beyond_median": lambda: beyond(MedianStopping(max_resource=9)),
        "units_beyond_hyperband": lambda: beyond(Hyperband(max_resource=9)),
        "units_beyond_pbt": lambda: beyond(pbt),
        "processes_lost": lambda: processes_lost(unit_s, stops),
        "in_place": in_place,
        "aside_s": lambda: aside_s(megabytes),
        "entry_s": entry_s,
    }


def measured(name: str, options: list[str], checkout: Path) -> float:
    """Measure one part with a checkout of the package, in a process of its own."""
    command = [sys.executable, __file__, "--one", name, *options]
    env = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} with {checkout}:\n{done.stderr}")
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what decisions cost the trials that they are about.")
    parser.add_argument("--before", type=Path, help="checkout of an earlier commit, as the baseline")
    parser.add_argument("--unit", type=float, default=8.0, help="seconds of a unit where processes are counted")
    parser.add_argument("--stops", type=int, default=20, help="trials of that search")
    parser.add_argument("--megabytes", type=int, default=400, help="size of a large state")
    parser.add_argument("--only", action="append", help="a part to measure; may be repeated")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    found = parts(given.unit, given.stops, given.megabytes)
    if given.one:
        print(json.dumps(found[given.one]()))
        return 0
    options = ["--unit", str(given.unit), "--stops", str(given.stops), "--megabytes", str(given.megabytes)]
    figures = []
    for name in given.only or found:
        before = measured(name, options, given.before.resolve()) if given.before else 0.0
        value = measured(name, options, Path(__file__).resolve().parents[1])
        unit = "of promotions" if name == "in_place" else "s" if name.endswith("_s") else "count"
        figures.append(Figure(name, value, unit, before))
    show("what a decision costs its trial", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
