"""The time of a proposal with each searcher, at 100 and 1,000 known trials.

Figures: ``propose_tpe_ms_1e3``, ``propose_cmaes_ms_1e3`` and ``propose_sobol_us_1e3`` are medians with 1,000 trials,
half of them completed and half paused at a lower rung, as with ASHA. The baseline of the first two is Optuna itself:
its study with in-memory storage, which keeps its sampler between proposals; that of the last is random search.

    python scripts/bench_searchers.py [--samples 30]
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import optuna
from _bench import Figure, show

from asyncsearch import OptunaSearch, RandomSearch, SobolSearch, Space, loguniform, randint, uniform
from asyncsearch.ids import TrialId
from asyncsearch.searchers import Searcher, SearcherState
from asyncsearch.trial import Params

SPACE = Space.of({"lr": loguniform(1e-5, 1e-1), "width": randint(16, 512), "dropout": uniform(0.0, 0.5)})
SIZES = (100, 1_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=30, help="number of measured proposals at each size")
    samples = parser.parse_args().samples
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    samplers: dict[str, Callable[[], Any]] = {
        "tpe": lambda: optuna.samplers.TPESampler(seed=0, multivariate=True, group=True, constant_liar=True),
        "cmaes": lambda: optuna.samplers.CmaEsSampler(seed=0),
    }
    figures = []
    for name, sampler in samplers.items():
        ours, theirs = measure(OptunaSearch(name), samples), measure_optuna(sampler(), samples)
        print(f"{name}: {told(ours)}; Optuna alone: {told(theirs)}")
        figures.append(Figure(f"propose_{name}_ms_1e3", 1e3 * ours[-1], "ms", 1e3 * theirs[-1]))
    sobol, chance = measure(SobolSearch(), samples), measure(RandomSearch(), samples)
    print(f"sobol: {told(sobol)}; random: {told(chance)}")
    figures.append(Figure("propose_sobol_us_1e3", 1e6 * sobol[-1], "us", 1e6 * chance[-1]))
    show("A proposal", figures)


def told(seconds: list[float]) -> str:
    return ", ".join(f"{1e3 * s:.3g} ms at {size:,}" for size, s in zip(SIZES, seconds, strict=True))


def measure(searcher: Searcher, samples: int) -> list[float]:
    """Return the median seconds of a proposal at each size; other trials come from random search, at once."""
    state, chance = searcher.begin(SPACE, 0), RandomSearch().begin(SPACE, 0)
    found, known = [], 0
    for size in SIZES:
        for number in range(known, size):
            tell(state, number, chance.propose(number) or {})
        times = []
        for number in range(size, size + samples):
            start = time.perf_counter()
            params = state.propose(number) or {}
            notes = state.notes(number)
            times.append(time.perf_counter() - start)
            tell(state, number, params, notes)
        known = size + samples
        found.append(statistics.median(times))
    return found


def tell(state: SearcherState, number: int, params: Params, notes: dict[str, Any] | None = None) -> None:
    """Let a proposal become a trial with three reports; every other one pauses after the first."""
    trial, score = TrialId(number), loss(params)
    state.created(trial, params)
    if notes:
        state.noted(trial, notes)
    state.reported(trial, 1, score)
    if number % 2:
        state.paused(trial, 1, score)
        return
    state.reported(trial, 3, score)
    state.reported(trial, 9, score)
    state.completed(trial, 9, score)


def measure_optuna(sampler: Any, samples: int) -> list[float]:
    """Return the same of Optuna's own study."""
    study, chance = optuna.create_study(sampler=sampler), RandomSearch().begin(SPACE, 0)
    found, known = [], 0
    for size in SIZES:
        for number in range(known, size):
            params = chance.propose(number) or {}
            study.enqueue_trial(params)
            finish(study, study.ask(), number)
        times = []
        for number in range(size, size + samples):
            start = time.perf_counter()
            trial = study.ask()
            suggest(trial)
            times.append(time.perf_counter() - start)
            finish(study, trial, number)
        known = size + samples
        found.append(statistics.median(times))
    return found


def suggest(trial: Any) -> Params:
    return {
        "lr": trial.suggest_float("lr", 1e-5, 1e-1, log=True),
        "width": trial.suggest_int("width", 16, 512),
        "dropout": trial.suggest_float("dropout", 0.0, 0.5),
    }


def finish(study: Any, trial: Any, number: int) -> None:
    score = loss(suggest(trial))
    trial.report(score, 1)
    if number % 2:
        study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        return
    trial.report(score, 3)
    trial.report(score, 9)
    study.tell(trial, score)


def loss(params: Params) -> float:
    return abs(params["lr"] - 0.01) + params["dropout"] + abs(params["width"] - 100) / 500


if __name__ == "__main__":
    main()
