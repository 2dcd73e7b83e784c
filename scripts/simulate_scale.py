"""Time to a target quality on 1, 25, 100 and 500 simulated workers, method by method.

Similar to figures 3 to 5 of the ASHA paper (Li et al., MLSys 2020). The workload is ``NoisyQuadratic``, whose optimum
is known: R is 64 units, reduction_factor 4, and the target is 1e-4 above the loss of the best constant learning rate.
Each method searches without end until a value as good is reported. Searchers that learn propose a bounded number of
configurations, since each of their proposals takes milliseconds.

A second table shows how few configurations per worker ASHA needs for a linear speed-up: the target is chosen so that
one worker alone begins four to five, or about ten, for each of the workers.

    python scripts/simulate_scale.py               writes docs/scale.md and docs/scale.svg
    python scripts/simulate_scale.py --seeds 1     a quick look: prints, and writes nothing
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import itertools
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from _panels import Curve, Panel, draw

from asyncsearch.schedulers import ASHA, FIFO, SHA, Scheduler
from asyncsearch.searchers import RandomSearch, Searcher
from asyncsearch.simulate import NoisyQuadratic, SimulationResult, TrainingModel, Until, simulate

DOCS = Path(__file__).resolve().parent.parent / "docs"
WORKERS, SEEDS = (1, 25, 100, 500), 10
R, FACTOR, BRACKET, POPULATION = 64, 4, 256, 40
EXCESS = 1e-4
MOST_TRIALS, MOST_PROPOSALS = 100_000, 1_000
FEW_SEEDS = 40


class Few(NamedTuple):
    """ASHA with few configurations for each worker."""

    workers: int
    excess: float
    """How far the target lies above the best constant rate's loss."""
    is_watched: bool
    """Values are reported each unit, of r = 4 and R = 256; else at the ends of rungs, r = 1 and R = 64."""


FEW = (
    Few(25, 0.0085, True),
    Few(100, 0.0025, True),
    Few(500, 0.0005, True),
    Few(25, 0.015, False),
    Few(100, 0.0035, False),
    Few(500, 0.0008, False),
    Few(25, 0.0075, False),
    Few(100, 0.002, False),
    Few(500, 0.0004, False),
)


class Method(NamedTuple):
    """A search method and its colour; its classes are imported only if they are available."""

    colour: str
    scheduler: Callable[[], Scheduler]
    searcher: Callable[[], Searcher] = RandomSearch
    num_trials: int = MOST_TRIALS
    needs: str = "asyncsearch"


def public(name: str, **options: Any) -> Any:
    """Make an instance of a public class by its name."""
    return getattr(importlib.import_module("asyncsearch"), name)(**options)


METHODS: dict[str, Method] = {
    "random": Method("#6e7781", lambda: FIFO(max_resource=R)),
    "SHA": Method("#d9480f", lambda: SHA(max_resource=R, reduction_factor=FACTOR, bracket_size=BRACKET)),
    "ASHA": Method("#2f7fd1", lambda: ASHA(max_resource=R, reduction_factor=FACTOR)),
    "Sobol": Method("#ae8500", lambda: FIFO(max_resource=R), lambda: public("SobolSearch")),
    "Hyperband": Method("#2b8a3e", lambda: public("Hyperband", max_resource=R, reduction_factor=FACTOR)),
    "PBT": Method("#c2255c", lambda: public("PBT", max_resource=R, perturbation_interval=4, population=POPULATION)),
    "TPE": Method("#9c36b5", lambda: FIFO(max_resource=R), lambda: public("OptunaSearch"), MOST_PROPOSALS, "optuna"),
    "ASHA with TPE": Method(
        "#0b7285",
        lambda: ASHA(max_resource=R, reduction_factor=FACTOR),
        lambda: public("OptunaSearch"),
        MOST_PROPOSALS,
        "optuna",
    ),
}


class Found(NamedTuple):
    """One simulated search."""

    at_s: float | None
    """When the target was met. None if never."""
    trials: int


def search(job: tuple[str, int, int]) -> Found:
    """Search with one method, on a number of workers, from one seed."""
    name, workers, seed = job
    method = METHODS[name]
    workload = NoisyQuadratic(dimensions=2, gradient_noise=1e-4)
    result = simulate(
        workload,
        scheduler=method.scheduler(),
        searcher=method.searcher(),
        workers=workers,
        num_trials=method.num_trials,
        until=Until(target=workload.best_constant(R)[1] + EXCESS),
        seed=seed,
        training=TrainingModel(report_every=None),
    )
    return Found(result.wall_s if result.reason == "the target was met" else None, len(result.trials))


def search_few(job: tuple[Few, int, int]) -> SimulationResult:
    """Search with ASHA for the target of such a point, on a number of workers, from one seed."""
    few, workers, seed = job
    workload = NoisyQuadratic(dimensions=2, gradient_noise=1e-4)
    r, most = (4, 256) if few.is_watched else (1, R)
    return simulate(
        workload,
        scheduler=ASHA(min_resource=r, max_resource=most, reduction_factor=FACTOR),
        workers=workers,
        until=Until(target=workload.best_constant(most)[1] + few.excess),
        seed=seed,
        training=TrainingModel(report_every=1 if few.is_watched else None),
    )


def few_row(few: Few, alone: list[SimulationResult], together: list[SimulationResult]) -> str:
    """Return the line of such a point. One seed proposes the same configurations to one worker and to many."""
    times, shared = [one.wall_s for one in alone], [one.wall_s for one in together]
    share = sum(times) / sum(shared) / few.workers
    # Jackknife: the ratio of two means, each time without one seed.
    without = [(sum(times) - a) / (sum(shared) - b) / few.workers for a, b in zip(times, shared, strict=True)]
    spread = ((len(without) - 1) * statistics.pvariance(without)) ** 0.5
    begun = [statistics.fmean(len(one.trials) for one in each) / few.workers for each in (alone, together)]
    units = statistics.fmean(one.incumbents[-1].resource for one in together)
    return (
        f"| {'each unit' if few.is_watched else 'ends of rungs'} | {few.workers} | {begun[0]:.1f} | {begun[1]:.1f} "
        f"| {statistics.fmean(shared):.0f} | {units:.0f} | {share:.0%} ± {spread:.0%} |"
    )


def few_table(pool: ProcessPoolExecutor, seeds: int) -> str:
    """Return the table of ASHA with few configurations for each worker."""
    lines = [
        "| reported | workers | configurations a worker, alone | together | time | of them the last | of linear |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for few in FEW:
        jobs = [(few, workers, seed) for workers in (1, few.workers) for seed in range(seeds)]
        found = list(pool.map(search_few, jobs, chunksize=2))
        lines.append(few_row(few, found[:seeds], found[seeds:]))
    return "\n".join(lines)


def rows(found: dict[tuple[str, int], list[Found]], names: list[str]) -> list[str]:
    """Return the lines of the table."""
    head = "| method | workers | mean time | speed-up | of linear | configurations | of them a worker |"
    lines = [head, "|---|---:|---:|---:|---:|---:|---:|"]
    for name, workers in itertools.product(names, WORKERS):
        mean, alone = mean_time(found[name, workers]), mean_time(found[name, 1])
        trials = statistics.fmean(one.trials for one in found[name, workers])
        if mean is None:
            met = sum(one.at_s is not None for one in found[name, workers])
            lines.append(f"| {name} | {workers} | met in {met} of {len(found[name, workers])} | | | {trials:,.0f} | |")
            continue
        speed = "" if alone is None else f"{alone / mean:,.1f} | {alone / mean / workers:.0%}"
        lines.append(
            f"| {name} | {workers} | {mean:,.0f} | {speed or '| '} | {trials:,.0f} | {trials / workers:,.0f} |"
        )
    return lines


def mean_time(found: list[Found]) -> float | None:
    """Return the mean time to the target; None if it was not always met."""
    times = [one.at_s for one in found if one.at_s is not None]
    return statistics.fmean(times) if len(times) == len(found) else None


def curves(found: dict[tuple[str, int], list[Found]], names: list[str]) -> list[Curve]:
    """Return time over workers, one curve for each method, and one for a linear speed-up of ASHA."""
    made = []
    for name in names:
        times = [(float(workers), mean_time(found[name, workers])) for workers in WORKERS]
        points = [(workers, mean, 0.0) for workers, mean in times if mean is not None]
        made.append(Curve(name, METHODS[name].colour, points))
    alone = mean_time(found["ASHA", 1])
    if alone is not None:
        made.append(Curve("ASHA, if linear", "#a5c8ee", [(float(k), alone / k, 0.0) for k in WORKERS], is_hollow=True))
    return made


TEXT = """# How methods scale

`scripts/simulate_scale.py` wrote this page. It runs the engine on a [virtual clock](simulate.md): time to a
target quality on 1, 25, 100 and 500 workers, in units of training, mean of {seeds} seeds.

The workload is `NoisyQuadratic(dimensions=2, gradient_noise=1e-4)`, whose optimum is known. The target lies {excess:g}
above the loss that the best constant learning rate has after R = {r} units; `reduction_factor` is {factor}, brackets of
SHA have {bracket} trials, populations of PBT {population}. A method searches until a value as good is reported, at
whatever resource.

![time to the target over the number of workers](scale.svg)

{table}

*Configurations* is the number begun until the target is met, and *of them a worker* that number for each worker.

An endless search always has work for a free worker, so time to the target falls linearly while
configurations outnumber the workers.

## With few configurations for each worker

Here ASHA's target is chosen by how many configurations one worker alone begins until it is met: four to five for each
of the workers, then about ten. Mean of {few_seeds} seeds; one seed proposes the same configurations to one worker and
to many. *Time* is that of all workers together, *of them the last* the units that the trial which met the target was
trained for, and *of linear* the speed-up over one worker, divided by the workers, with its standard error.

{few}

With r = 4, R = 256 and values reported each unit (those on the way count for the incumbent, section 3.3 of the paper),
four configurations for each worker are enough: the speed-up is linear or more with 25, 100 and 500 workers. It is more,
since one worker alone trains the best of its first 64 configurations to R = 256, which many workers have not had the
time for when the target is met.

What ends the linear part is the length of the last training: the best configuration goes from rung to rung, one after
the other, on one worker, and no scheduler can share that out. With r = 1, R = 64 and values seen at the ends of rungs
alone, four or five configurations are about 20 units of time for each worker, and the last training is up to half of
these: 500 workers are at 85 % of linear there, and above 90 % with about ten configurations for each.
`tests/simulate/test_scale.py` holds what the first three lines say.

## What learns

TPE needs a hundredth of the configurations on this smooth valley, and so has few for many workers: with 500 of them it
proposes half of its {proposals:,} before the first result. Where the target was not always met within these, no time is
given. The mean of a few searches that end by luck is rough: methods that differ by less than a factor of two are not
told apart.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulate the time to a target on many workers.")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"searches a point (default: {SEEDS})")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS), metavar="METHOD")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    names = [name for name in options.methods if importlib.util.find_spec(METHODS[name].needs)]
    began = time.monotonic()
    points = list(itertools.product(names, WORKERS))
    jobs = [(name, workers, seed) for name, workers in points for seed in range(options.seeds)]
    with ProcessPoolExecutor(options.processes) as pool:
        done = list(pool.map(search, jobs))
        few = few_table(pool, FEW_SEEDS if options.seeds == SEEDS else options.seeds)
    found: dict[tuple[str, int], list[Found]] = {point: [] for point in points}
    for (name, workers, _), one in zip(jobs, done, strict=True):
        found[name, workers].append(one)
    table = "\n".join(rows(found, names))
    print(table)
    print(few)
    print(f"{len(jobs)} searches in {time.monotonic() - began:.0f} s with {options.processes} processes")
    if options.seeds == SEEDS and names == list(METHODS):
        panel = Panel("", curves(found, names))
        picture = DOCS / "scale.svg"
        draw("Time to the target", [panel], picture, x="workers", y="time units", width=620, x_log=True, y_log=True)
        text = TEXT.format(
            seeds=SEEDS,
            excess=EXCESS,
            r=R,
            factor=FACTOR,
            bracket=BRACKET,
            population=POPULATION,
            proposals=MOST_PROPOSALS,
            table=table,
            few=few,
            few_seeds=FEW_SEEDS,
        )
        (DOCS / "scale.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
