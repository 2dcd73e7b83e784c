"""What a short search costs beside its training: before it, between its trials, and after it.

Each figure is the worse of local processes and a local Spark session that is there and has run a job, with two workers,
and the median of nine runs. ``fixed_s`` is the time of ``study.run`` for two trials that do nothing, in a process that
has run a study before; ``fixed_new_s`` is the same for the first study of a new process, which imports more.
``first_trial_s`` is, in a new process, the time from the call of ``study.run`` to the first line of the first trial.
The baseline of these three is the start and end of a bare Python process.

``utilisation`` is the share of the workers' time that is training, in percent: 60 trials of ten units of 20 ms, over
twice the time of ``study.run``. ``latency_ratio`` is the time of a search for 40 trials of 50 units of 20 ms, half of
them bad, under ``ASHA(max_resource=50, reduction_factor=3)``; its baseline is the same search simulated without any
latency. ``bare_utilisation`` and ``bare_latency_ratio`` are the same for processes that only pass the messages on,
without the start and the end of a search (``_bare_search``): one that waits as often cannot do better. ``show_s`` is
the time of ``asyncsearch show`` for a study of 1,000 trials with ten reports each.

The conditions are printed first: the cores, what else the machine did, the versions, and the options of Java.

    python scripts/bench_short.py [--rounds 9] [--only fixed show]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from _bare_search import bare_search_s
from _bench import Figure, show
from _conditions import conditions, load

from asyncsearch import ASHA, Study, TrialContext, uniform
from asyncsearch.ids import TrialId
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.simulate import simulate
from asyncsearch.trial import Params

WORKERS = 2
BACKENDS = ("processes", "spark")
UNIT_S = 0.02
SHORT_TRIALS, SHORT_UNITS = 60, 10
HALVED_TRIALS, HALVED_UNITS = 40, 50
HALVED_WAITS = 107
"""Decisions that the workers of such a search wait for: 59 of reports, and 48 times what to train next."""
SHOWN_TRIALS = 1_000
SPACE = {"lr": uniform(0.0, 1.0)}
PARTS = ("fixed", "first", "utilisation", "latency", "show")


def no_op(trial: TrialContext) -> float:
    """Train nothing, and report when."""
    del trial
    return time.time()


def ten_units(trial: TrialContext) -> None:
    """Report ten times."""
    for _ in range(SHORT_UNITS):
        time.sleep(UNIT_S)
        trial.report(x=trial.params["lr"])


def report_only(trial: TrialContext) -> None:
    """Report ten times without training."""
    for _ in range(SHORT_UNITS):
        trial.report(x=trial.params["lr"])


def loss(params: Params, resource: int) -> float:
    """Return a curve that falls to the trial's own value; those of bad trials stay one higher."""
    value = float(params["lr"])
    return value + 1 / resource + (value > 0.5)


def half_bad(trial: TrialContext) -> None:
    """Train for 50 units, and save what a resumed trial needs: nothing."""
    for unit in trial.epochs(save=lambda path: path.write_bytes(b""), load=lambda _: None):
        time.sleep(UNIT_S)
        trial.report(x=loss(trial.params, unit))


class WithoutLatency:
    """The same trials for the simulator."""

    def value(self, trial: TrialId, params: Params, resource: int) -> float:
        del trial
        return loss(params, resource)

    def seconds(self, trial: TrialId, params: Params) -> float:
        del trial, params
        return UNIT_S


def run_s(
    train: Callable[[TrialContext], Any], trials: int, backend: str, scheduler: Scheduler | None = None
) -> tuple[float, float]:
    """Search, and return the seconds until ``run`` returned, and until the time that the best trial reported."""
    with tempfile.TemporaryDirectory() as folder:
        study = Study(
            train,
            space=SPACE,
            metric="x",
            mode="min",
            scheduler=scheduler,
            store=Path(folder) / "study",
            backend=backend,
        )
        called_s, began_s = time.time(), time.perf_counter()
        study.run(num_trials=trials, parallelism=WORKERS, display="none")
        ended_s = time.perf_counter()
        return ended_s - began_s, study.best_value - called_s


def halving() -> ASHA:
    """Return the scheduler of the search that is half bad."""
    return ASHA(max_resource=HALVED_UNITS, reduction_factor=3)


@contextlib.contextmanager
def session_of(backend: str) -> Any:
    """A local session with one slot for each worker, in which a job has run; nothing for processes."""
    if backend == "processes":
        yield
        return
    from bench_handoff import spark_session

    with spark_session() as session:
        session.sparkContext.parallelize(range(WORKERS), WORKERS).count()
        yield


def measure_first(backend: str) -> dict[str, list[float]]:
    """Measure the first run of this process."""
    with session_of(backend):
        whole_s, first_s = run_s(no_op, 2, backend)
    return {"fixed_new_s": [whole_s], "first_trial_s": [first_s]}


def measure_later(backend: str, rounds: int, parts: Sequence[str]) -> dict[str, list[float]]:
    """Measure runs of a process that has run a study before."""
    found: dict[str, list[float]] = {}
    with session_of(backend):
        run_s(no_op, 2, backend)
        for _ in range(rounds):
            if "fixed" in parts:
                found.setdefault("fixed_s", []).append(run_s(no_op, 2, backend)[0])
            if "utilisation" in parts:
                trained_s = SHORT_TRIALS * SHORT_UNITS * UNIT_S
                share = trained_s / WORKERS / run_s(ten_units, SHORT_TRIALS, backend)[0]
                found.setdefault("utilisation", []).append(100 * share)
            if "latency" in parts:
                found.setdefault("latency_s", []).append(run_s(half_bad, HALVED_TRIALS, backend, halving())[0])
    return found


def in_process(arguments: Sequence[str]) -> dict[str, list[float]]:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, *arguments]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, list[float]] = json.loads(printed.splitlines()[-1])
    return found


def command_s(command: Sequence[str], rounds: int) -> float:
    """Return the median time of a command, after one call that may write compiled modules."""
    times = []
    for _ in range(rounds + 1):
        began_s = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - began_s)
    return statistics.median(times[1:])


def show_s(rounds: int) -> float:
    """Return the time of ``asyncsearch show``."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "study"
        study = Study(report_only, space=SPACE, metric="x", mode="min", store=store, backend="inline")
        study.run(num_trials=SHOWN_TRIALS, display="none")
        return command_s([sys.executable, "-m", "asyncsearch", "show", str(store)], rounds)


def measured(rounds: int, parts: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the median of each figure, by backend."""
    medians: dict[str, dict[str, float]] = {}
    for backend in BACKENDS:
        found: dict[str, list[float]] = {}
        if "first" in parts:
            for _ in range(rounds):
                for name, values in in_process(["--measure", "first", backend]).items():
                    found.setdefault(name, []).extend(values)
        if {"fixed", "utilisation", "latency"} & set(parts):
            found |= in_process(["--measure", "later", backend, "--rounds", str(rounds), "--only", *parts])
        for name, values in found.items():
            medians.setdefault(name, {})[backend] = statistics.median(values)
            print(f"{backend:>10} {name:<16}", " ".join(f"{value:.3g}" for value in sorted(values)), flush=True)
    return medians


def figures(rounds: int, parts: Sequence[str]) -> list[Figure]:
    """Measure, and return each figure of the worse backend."""
    bare_s = command_s([sys.executable, "-c", "pass"], rounds)
    medians = measured(rounds, parts)
    made = [
        Figure(name, max(medians[name].values()), "s", bare_s)
        for name in ("fixed_s", "fixed_new_s", "first_trial_s")
        if name in medians
    ]

    def messages_s(units: int, waits: int) -> float:
        return statistics.median(bare_search_s(WORKERS, units, waits) for _ in range(rounds))

    if "utilisation" in medians:
        made.append(Figure("utilisation", min(medians["utilisation"].values()), "%", 100.0))
        units = SHORT_TRIALS * SHORT_UNITS
        made.append(
            Figure("bare_utilisation", 100 * units * UNIT_S / WORKERS / messages_s(units, SHORT_TRIALS), "%", 100.0)
        )
    if "latency_s" in medians:
        alone_s = simulate(
            WithoutLatency(), scheduler=halving(), space=SPACE, metric="x", workers=WORKERS, num_trials=HALVED_TRIALS
        ).wall_s
        made.append(Figure("latency_ratio", max(medians["latency_s"].values()) / alone_s, "times", 1.0))
        units = round(WORKERS * alone_s / UNIT_S)
        made.append(Figure("bare_latency_ratio", messages_s(units, HALVED_WAITS) / alone_s, "times", 1.0))
    if "show" in parts:
        made.append(Figure("show_s", show_s(rounds), "s", bare_s))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what a short search costs beside its training.")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--measure", nargs=2, metavar=("WHEN", "BACKEND"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        when, backend = options.measure
        later = when == "later"
        print(json.dumps(measure_later(backend, options.rounds, options.only) if later else measure_first(backend)))
        return
    # An installed package has its compiled modules; a checkout that may not write them would compile in each process.
    with tempfile.TemporaryDirectory() as compiled:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ.setdefault("PYTHONPYCACHEPREFIX", compiled)
        print("\n".join([*conditions(), f"{options.rounds} rounds", load("before")]), flush=True)
        found = figures(options.rounds, options.only)
        print(load("after"))
        show(f"A short search on {WORKERS} workers", found)


if __name__ == "__main__":
    main()
