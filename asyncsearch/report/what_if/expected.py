"""What a search is expected to take, by running the engine as it is on a virtual cluster; and what a unit has cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from asyncsearch.arguments import seconds_of
from asyncsearch.engine.config import EngineConfig
from asyncsearch.errors import ResourceError, StudyNotFoundError, UsageError
from asyncsearch.ids import TrialId
from asyncsearch.journal.opening import read_records, read_study_file
from asyncsearch.report.what_if.recorded_study import recorded
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.simulate.cluster import Delays
from asyncsearch.simulate.simulated_search import simulate
from asyncsearch.simulate.workloads import Curves
from asyncsearch.space import Space
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store

_MOST_TRIALS = 10_000
_MOST_REPORTS = 200_000
"""What is simulated within a few seconds. Of a larger search a part is simulated, with as many trials a worker."""
_MOST_BRANCHES = 20_000
_LEAST_TRIALS = 100
"""Fewer stand for no search."""
_MOST_OFF = 0.05
"""By which share of its training an ideal search may differ from its part, scaled up: else that stands for it badly."""
_NO_DELAYS = Delays()


class Cost(msgspec.Struct, frozen=True):
    """What training takes on one worker."""

    unit_s: float
    """Seconds of a unit of training."""
    delays: Delays = _NO_DELAYS
    """Seconds of all else: starts, launches, commits."""
    source: str = ""
    """Where it was measured, in words; empty: it was given."""


class Expected(msgspec.Struct, frozen=True):
    """How a simulated search went whose trials have made-up learning curves."""

    wall_s: float
    """Seconds; units of training that one worker does in that time if no cost is known."""
    trained: int
    """Units of training of all trials together."""
    reached: tuple[tuple[int, int], ...]
    """(resource, how many trials were trained at least so far) for each resource at which trials stand still."""
    busy_share: float
    """Which share of the workers' time was training, from 0 to 1."""
    part: tuple[int, int] | None = None
    """How many trials on how many workers were simulated, and scaled up to the search; None: it was simulated whole."""


def measured(store: Store) -> Cost | None:
    """Return what training has cost in a study by its journal; None: the store holds no study, or one without reports.

    Args:
        store: of the study.
    """
    file = read_study_file(store)
    if file is None:
        return None
    try:
        workload = recorded(list(read_records(store)), file.metric)
    except UsageError:
        return None
    return Cost(workload.mean_s, workload.delays, file.name)


def cost_of(store: Store, seconds_per_unit: object, like: Any) -> Cost | None:
    """Return what a unit costs that a study's user describes; None: it is not known.

    Args:
        store: of the study, which has measured it if it has run.
        seconds_per_unit: as the user gave it, and then it counts; None: look it up.
        like: a study or a store, as the user gave it; None: the study itself.

    Raises:
        UsageError: no duration, no study, or one in which nothing was measured.
        StudyNotFoundError: the store that is named holds no study.
    """
    if seconds_per_unit is not None:
        return Cost(seconds_of("seconds_per_unit", seconds_per_unit))
    if like is None:
        return measured(store)
    place = getattr(like, "store", like)
    if not isinstance(place, str | Path | Store):
        raise UsageError(f"like={like!r} is neither a study nor a store: write e.g. like='studies/digits'.")
    home = place if isinstance(place, Store) else open_store(place)
    if read_study_file(home) is None:
        raise StudyNotFoundError(f"like: {home.shown} holds no study: there is no study.json in it.")
    cost = measured(home)
    if cost is None:
        raise UsageError(
            f"like: no trial of {home.shown} has reported enough to measure what a unit takes: name another study, or "
            "say seconds_per_unit=."
        )
    return cost


def expected(
    scheduler: Scheduler,
    num_trials: int,
    workers: int,
    cost: Cost | None = None,
    *,
    config: EngineConfig | None = None,
    space: Space | None = None,
    searcher: Searcher | None = None,
) -> Expected | None:
    """Simulate a search, or a part of one that is large; None: no part stands for it, or its trials end by themselves.

    Args:
        scheduler: as of the study.
        num_trials: of the search.
        workers: how many.
        cost: of training; None: a unit takes one second.
        config: of the study; None: that of one whose trials share nothing.
        space: of the study, where proposals matter: they share training, or the scheduler changes them.
        searcher: of the study, where proposals matter.
    """
    lines = scheduler.forecast(num_trials)
    ends = [line.to_resource for line in lines if line.to_resource is not None]
    trials, on = _part(num_trials, workers, _most(scheduler, max(ends, default=1), space))
    is_whole = (trials, on) == (num_trials, workers)
    # What trials share depends on how many there are, so no part of them stands for the whole.
    is_scalable = is_whole or (searcher is None and not (space is not None and space.has_sequences))
    if len(ends) < len(lines) or not is_scalable or not _stands_for(scheduler, trials, num_trials):
        return None
    cost = cost or Cost(1.0)
    result = simulate(
        Curves(unit_s=cost.unit_s),
        scheduler=scheduler,
        searcher=searcher,
        space=space,
        workers=on,
        num_trials=trials,
        seed=config.seed if config is not None else 0,
        delays=cost.delays,
        # Trials that pause are judged where they pause; the others at each report.
        report_every=None if scheduler.pauses else 1,
        share=config.share if config is not None and space is not None else None,
    )
    resources = [trial.resource for trial in result.trials]
    climbed = resources if scheduler.max_resource is None else []  # beyond what an ideal search would reach
    scale = num_trials / trials
    return Expected(
        wall_s=result.wall_s * scale * on / workers,
        trained=round(result.trained * scale),
        reached=_reached(resources, sorted({*ends, *climbed}), scale),
        busy_share=result.busy_share,
        part=None if is_whole else (trials, on),
    )


def _most(scheduler: Scheduler, end: int, space: Space | None) -> int:
    """Return how many trials that train up to ``end`` are simulated at most."""
    if not scheduler.pauses:
        return min(_MOST_TRIALS, _MOST_REPORTS // end)
    if not scheduler.branches:
        return _MOST_TRIALS
    return min(_MOST_TRIALS, _MOST_BRANCHES * (scheduler.begin(space).first_target(TrialId(0)) or end) // end)


def _part(num_trials: int, workers: int, most: int) -> tuple[int, int]:
    """Return how many trials on how many workers to simulate: as many trials a worker, or one worker has the most."""
    if num_trials <= most:
        return num_trials, workers
    on = max(1, workers * most // num_trials)
    return min(most, num_trials * on // workers), on


def _stands_for(scheduler: Scheduler, trials: int, num_trials: int) -> bool:
    """Return whether a search of fewer trials is like one of more: it trains as much a trial, if both are ideal."""
    if trials == num_trials:
        return True
    if trials < _LEAST_TRIALS:
        return False
    try:
        scheduler.warnings(trials)
    except ResourceError:  # e.g. a population that is larger
        return False
    part, whole = (sum(rung.units for rung in scheduler.forecast(count)) / count for count in (trials, num_trials))
    return abs(part - whole) <= _MOST_OFF * whole


def _reached(resources: Sequence[int], levels: Sequence[int], scale: float) -> tuple[tuple[int, int], ...]:
    return tuple((level, round(scale * sum(resource >= level for resource in resources))) for level in levels)
