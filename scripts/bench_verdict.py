"""The cost of a decision to the trial that it is about: units beyond a stop, processes lost to it, promotions in place.

Figures: ``units_beyond_<scheduler>`` counts the units that were begun after their trial was over; ``processes_lost``
the processes that stops of long units have ended; ``in_place`` is the share of promotions that need no checkpoint;
``aside_s`` the seconds of a search with large states that are not training; ``promoted_s`` those of workers, in a
search whose function takes half a second to begin, for trials that had reported before. The baseline is the checkout
``--before``, measured in turns with this one; without it, 0.

    python scripts/bench_verdict.py [--before ../earlier] [--unit 8] [--stops 20] [--megabytes 400] [--only in_place]
    python scripts/bench_verdict.py --master 'local[4]' --only units_beyond_median      on Spark, where `--master` says
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from _bench import Figure, show

from asyncsearch import ASHA, PBT, Hyperband, MedianStopping, Study, TorchTrainer, TrialContext, uniform
from asyncsearch.actions import Promote, lanes_given
from asyncsearch.events import Reported, TrainingEnded
from asyncsearch.journal.format import Record
from asyncsearch.journal.opening import read_records

ENTRY_S, SAVED_UNIT_S = 0.5, 0.5


def loss_of(trial: TrialContext, unit: int) -> float:
    return float((trial.params["x"] - 0.3) ** 2 + 1 / unit)


def logged(folder: Path, unit_s: float, *, entry_s: float = 0.0) -> Callable[[TrialContext], None]:
    """Make a trial that writes a line for each unit that it begins, with its process."""
    lines = str(folder / "units")

    def train(trial: TrialContext) -> None:
        time.sleep(entry_s)
        for unit in trial.epochs(state={"state": {}}):
            with open(lines, "a") as file:
                file.write(f"{trial.name} {os.getpid()}\n")
            time.sleep(unit_s)
            trial.report(loss=loss_of(trial, unit))

    return train


def large(folder: Path, unit_s: float, megabytes: int) -> type[Any]:
    """Make a trainer of a network of so many megabytes, which does the same."""
    import torch

    lines, side = str(folder / "units"), int((megabytes * 250_000) ** 0.5)

    class Large(TorchTrainer):
        def model(self, hp: Mapping[str, Any]) -> Any:
            net = torch.nn.utils.skip_init(torch.nn.Linear, side, side, bias=False)
            torch.nn.init.zeros_(net.weight)  # random values would take longer than all that is measured
            return net

        def optimizer(self, hp: Mapping[str, Any], model: Any) -> Any:
            return torch.optim.SGD(model.parameters(), lr=0.1)

        def data(self, hp: Mapping[str, Any]) -> Any:
            few = torch.zeros(2, side)
            return (few, few), (few, few)

        def train(self) -> None:
            with open(lines, "a") as file:
                file.write(f"{self.trial.name} {os.getpid()}\n")
            time.sleep(unit_s)

        def evaluate(self) -> dict[str, float]:
            return {"loss": loss_of(self.trial, self.trial.resource + 1)}

    return Large


class Searched(NamedTuple):
    """What is left of a search."""

    trials: list[Any]
    units: list[str]
    """A line for each unit that was begun: its trial and its process."""
    seconds: float
    promotions: int
    in_place: int
    """How many of them were of a trial that went on where it was."""
    promoted_s: float
    """Seconds of workers for trials, from the first report of each on."""


def searched(
    scheduler: Any, trials: int, workers: int, unit_s: float, make: Callable[..., Any] = logged, **options: Any
) -> Searched:
    """Search with trials of a kind: on the Spark session that there is, else in processes."""
    with tempfile.TemporaryDirectory() as name:
        began_s = time.monotonic()
        study = Study(
            make(Path(name), unit_s, **options),
            space={"x": uniform(0.0, 1.0)},
            metric="loss",
            mode="min",
            scheduler=scheduler,
            seed=1,
            store=Path(name) / "study",
            backend="auto" if on_spark() else "processes",
        ).run(trials, parallelism=workers, display="none")
        seconds = time.monotonic() - began_s
        records = list(read_records(study.store))
        actions = [action for record in records for action in record.actions]
        promotions = [action for action in actions if isinstance(action, Promote)]
        in_place = [action for action in actions if type(action).__name__ == "ExtendWork" and action.stages]
        units = (Path(name) / "units").read_text().splitlines()
        promoted_s = seconds_after_first_reports(records)
        return Searched(list(study.trials), units, seconds, len(promotions), len(in_place), promoted_s)


def on_spark() -> bool:
    """Return whether this process has a Spark session; it imports none."""
    sql = sys.modules.get("pyspark.sql")
    return sql is not None and sql.SparkSession.getActiveSession() is not None


@contextlib.contextmanager
def session_on(master: str) -> Iterator[None]:
    """Have a session on a Spark; none if ``master`` is empty."""
    if not master:
        yield
        return
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    session = builder.config("spark.log.level", "ERROR").getOrCreate()
    try:
        yield
    finally:
        session.stop()


def seconds_after_first_reports(records: Iterable[Record]) -> float:
    """Return the seconds of workers for trials, from the first report of each on."""
    since: dict[int, float] = {}
    total_s = 0.0
    for record in records:
        event = record.event
        if isinstance(event, Reported) and event.resource == 1:
            since[event.lease.number] = record.t
        elif isinstance(event, TrainingEnded):
            total_s += record.t - since[event.lease.number]
        since |= {given.attempt: record.t for action in record.actions for given in lanes_given(action)}
    return total_s


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
    """Return the seconds of a search in torch of 8 trials with large states that are not training."""
    found = searched(ASHA(max_resource=9), 8, 1, SAVED_UNIT_S, large, megabytes=megabytes)
    return found.seconds - SAVED_UNIT_S * len(found.units)


def promoted_s() -> float:
    """Return the seconds of workers for trials that had reported before, where a function takes a while to begin."""
    return searched(ASHA(max_resource=27), 27, 2, 0.05, entry_s=ENTRY_S).promoted_s


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
        "promoted_s": promoted_s,
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
    parser.add_argument("--master", default="", help="a Spark to search on, such as local[4]; processes without it")
    parser.add_argument("--only", action="append", help="a part to measure; may be repeated")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    found = parts(given.unit, given.stops, given.megabytes)
    if given.one:
        with session_on(given.master):
            print(json.dumps(found[given.one]()))
        return 0
    options = ["--unit", str(given.unit), "--stops", str(given.stops), "--megabytes", str(given.megabytes)]
    options += ["--master", given.master]
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
