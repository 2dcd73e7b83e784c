"""The expected duration of a search, from a simulation with the real engine, and the measured cost of a unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from asyncsearch.arguments import seconds_of
from asyncsearch.engine.config import EngineConfig
from asyncsearch.errors import ResourceError, StudyNotFoundError, UsageError
from asyncsearch.ids import TrialId
from asyncsearch.journal.opening import read_records, read_study_file
from asyncsearch.report.what_if.recorded_study import recorded
from asyncsearch.report.what_if.recorded_units import Speedups
from asyncsearch.report.what_if.scaling import Packs, Scaling
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.simulate.options import Delays, TrainingModel
from asyncsearch.simulate.simulated_search import simulate
from asyncsearch.simulate.workloads import Curves
from asyncsearch.sizing.packing import grouping_by
from asyncsearch.space import Space
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store

_MOST_TRIALS = 10_000
_MOST_REPORTS = 200_000
"""The size that is simulated within a few seconds; of a larger search a part is, with as many trials per worker."""
_MOST_BRANCHES = 20_000
_LEAST_TRIALS = 100
"""A part with fewer trials represents no search."""
_LARGEST_DIFFERENCE = 0.05
"""The share of its training by which an ideal search may differ from its part, scaled up."""
_NO_DELAYS = Delays()


class Cost(msgspec.Struct, frozen=True):
    """The cost of training on one worker."""

    unit_s: float
    """Seconds of a unit of training."""
    delays: Delays = _NO_DELAYS
    """Seconds of everything else: launches, starts, commits."""
    source: str = ""
    """Name of the study in which it was measured; empty if the user gave it."""
    pack_speedup: Mapping[str, Mapping[int, float]] = {}
    """How much packs gain, by structure, as measured there; empty if nothing was."""
    gang_speedup: Mapping[int, float] = {}
    """Workers of a trial -> how many times as fast as the fewest they train it, as measured; empty if nothing was."""


class Expected(msgspec.Struct, frozen=True):
    """The result of a simulated search whose trials have invented learning curves."""

    wall_s: float
    """Seconds; where no cost is known, units that one worker trains in that time."""
    trained: int
    """Units of training of all trials together."""
    reached: tuple[tuple[int, int], ...]
    """(resource, how many trials reached it) for each resource at which trials pause or end."""
    busy_share: float
    """The share of the workers' time that was training, from 0 to 1."""
    shared: int = 0
    """Units that trials would train in addition if they did not share what their sequences have in common."""
    part: tuple[int, int] | None = None
    """(trials, workers) of the simulated part that was scaled up; None if the whole search was simulated."""


def measured(store: Store, pack_speedup: Speedups | None = None) -> Cost | None:
    """Return the cost of training by a study's journal; None if the store holds no study, or one without reports.

    It is that of trials that train alone. ``pack_speedup``: by what that is reckoned from times of packs; None means by
    the gains measured there.
    """
    file = read_study_file(store)
    if file is None:
        return None
    try:
        workload = recorded(list(read_records(store)), file.metric, pack_speedup, grouping_by(file.pack_by))
    except UsageError:
        return None
    return Cost(workload.mean_s, workload.delays, file.name, workload.pack_speedup, workload.gang_speedup)


def cost_of(store: Store, seconds_per_unit: object, like: Any, pack_speedup: Speedups | None = None) -> Cost | None:
    """Return the cost of a unit as the user describes it; None if it is not known.

    Args:
        store: of the study, whose journal has it if the study has run.
        seconds_per_unit: as the user gave it; None means read it from a journal.
        like: the study or store to read it from; None means the study itself.
        pack_speedup: how much packs gain there; None means as measured.

    Raises:
        UsageError: not a duration, not a study, or a study without measurements.
        StudyNotFoundError: the store holds no study.
    """
    if seconds_per_unit is not None:
        return Cost(seconds_of("seconds_per_unit", seconds_per_unit))
    if like is None:
        return measured(store, pack_speedup)
    try:
        home = open_store(getattr(like, "store", like))
    except UsageError:
        raise UsageError(f"like={like!r} is neither a study nor a store: write e.g. like='studies/digits'.") from None
    if read_study_file(home) is None:
        raise StudyNotFoundError(f"like: {home.shown} holds no study: there is no study.json in it.")
    cost = measured(home, pack_speedup)
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
    packs: Packs | None = None,
    scaling: Scaling | None = None,
) -> Expected | None:
    """Simulate a search, or a part of a large one; None if no part represents it, or its trials end by themselves.

    Args:
        cost: of training; with None a unit takes one second.
        config: of the study; with None trials share nothing.
        space: of the study, if trials share training, are packed, or the scheduler changes proposals.
        searcher: of the study, if trials share training or the scheduler changes proposals.
        packs: how many train together, and what that gains; None means each alone.
        scaling: when trials have more workers than others; None means never.
    """
    lines = scheduler.forecast(num_trials)
    ends = [line.to_resource for line in lines if line.to_resource is not None]
    trials, on = _part(num_trials, workers, _most(scheduler, max(ends, default=1), space))
    is_whole = (trials, on) == (num_trials, workers)
    # How much trials share depends on their number, so no part of them represents the whole.
    is_scalable = is_whole or (searcher is None and not (space is not None and space.has_sequences))
    if len(ends) < len(lines) or not is_scalable or not _represents(scheduler, trials, num_trials):
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
        # A trial that pauses is judged where it pauses, any other one at each report.
        training=TrainingModel(
            report_every=None if scheduler.pauses and scaling is None else 1,
            pack_speedup={} if packs is None else packs.speedup,
            gang_speedup={} if scaling is None else scaling.curve,
        ),
        share=config.share if config is not None and space is not None else None,
        pack_by=None if config is None else config.pack_by,
        **({} if packs is None else packs.options),
        **({} if scaling is None else scaling.options),
    )
    resources = [trial.resource for trial in result.trials]
    climbed = resources if scheduler.max_resource is None else []  # where an ideal search would not get
    scale = num_trials / trials
    is_shared = space is not None and space.has_sequences and not scheduler.branches
    return Expected(
        wall_s=result.wall_s * scale * on / workers,
        trained=round(result.trained * scale),
        reached=_reached(resources, sorted({*ends, *climbed}), scale),
        busy_share=result.busy_share,
        shared=round(scale * max(0, sum(resources) - result.trained)) if is_shared else 0,
        part=None if is_whole else (trials, on),
    )


def _most(scheduler: Scheduler, end: int, space: Space | None) -> int:
    """Return the largest number of trials that are simulated if they train up to ``end``."""
    if not scheduler.pauses:
        return min(_MOST_TRIALS, _MOST_REPORTS // end)
    if not scheduler.branches:
        return _MOST_TRIALS
    return min(_MOST_TRIALS, _MOST_BRANCHES * (scheduler.begin(space).first_target(TrialId(0)) or end) // end)


def _part(num_trials: int, workers: int, most: int) -> tuple[int, int]:
    """Return (trials, workers) to simulate: as many trials per worker as in the search, or the most on one worker."""
    if num_trials <= most:
        return num_trials, workers
    on = max(1, workers * most // num_trials)
    return min(most, num_trials * on // workers), on


def _represents(scheduler: Scheduler, trials: int, num_trials: int) -> bool:
    """Return whether fewer trials represent more: if both searches are ideal, a trial trains as much in each."""
    if trials == num_trials:
        return True
    if trials < _LEAST_TRIALS:
        return False
    try:
        scheduler.warnings(trials)
    except ResourceError:  # e.g. a population that is larger
        return False
    part, whole = (sum(rung.units for rung in scheduler.forecast(count)) / count for count in (trials, num_trials))
    return abs(part - whole) <= _LARGEST_DIFFERENCE * whole


def _reached(resources: Sequence[int], levels: Sequence[int], scale: float) -> tuple[tuple[int, int], ...]:
    return tuple((level, round(scale * sum(resource >= level for resource in resources))) for level in levels)
