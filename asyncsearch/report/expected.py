"""What a search is expected to take, by running the engine as it is on a virtual cluster; and what a unit has cost."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from asyncsearch.driver.opening import read_records, read_study_file
from asyncsearch.engine.config import EngineConfig
from asyncsearch.errors import UsageError
from asyncsearch.report.what_if import recorded
from asyncsearch.schedulers.base import Scheduler
from asyncsearch.searchers.base import Searcher
from asyncsearch.simulate.cluster import Delays
from asyncsearch.simulate.searching import simulate
from asyncsearch.simulate.workloads import Curves
from asyncsearch.space import Space
from asyncsearch.store.base import Store

_MOST_TRIALS = 10_000
_MOST_REPORTS = 200_000
"""What is simulated within 2 seconds."""
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
    """Simulate a search; None: it would take long, or where its trials end is not known.

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
    reports = num_trials if scheduler.pauses else num_trials * max(ends, default=1)
    if len(ends) < len(lines) or num_trials > _MOST_TRIALS or reports > _MOST_REPORTS:
        return None
    cost = cost or Cost(1.0)
    result = simulate(
        Curves(unit_s=cost.unit_s),
        scheduler=scheduler,
        searcher=searcher,
        space=space,
        workers=workers,
        num_trials=num_trials,
        seed=config.seed if config is not None else 0,
        delays=cost.delays,
        # Trials that pause are judged where they pause; the others at each report.
        report_every=None if scheduler.pauses else 1,
        share=config.share if config is not None and space is not None else None,
    )
    resources = [trial.resource for trial in result.trials]
    climbed = resources if scheduler.max_resource is None else []  # beyond what an ideal search would reach
    return Expected(result.wall_s, result.trained, _reached(resources, sorted({*ends, *climbed})), result.busy_share)


def _reached(resources: Sequence[int], levels: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple((level, sum(resource >= level for resource in resources)) for level in levels)
