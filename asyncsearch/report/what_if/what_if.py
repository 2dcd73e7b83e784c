"""How long an earlier study would have taken on other numbers of workers: ``print(what_if(study))``.

The engine runs as it is on a virtual clock. The configurations, their values and failures, and the times of units,
launches, starts and commits are those of the study's journal.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from asyncsearch.actions import Assign, CreateTrial, EndRun, LaunchWorker, MoveTrial
from asyncsearch.arguments import checked, positive
from asyncsearch.engine.config import EngineConfig
from asyncsearch.errors import UsageError
from asyncsearch.events import CheckpointCommitted, Reported, RunRequested, TrainingEnded, WorkerAttached
from asyncsearch.ids import TrialId
from asyncsearch.journal.format import Record
from asyncsearch.journal.opening import read_records
from asyncsearch.journal.projection import LeaseProgress, Projection, branched, reports
from asyncsearch.nonfinite import finite
from asyncsearch.report.formatting import duration, number
from asyncsearch.schedulers import reasons
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.simulate.options import Delays, Faults
from asyncsearch.simulate.random_faults import Chance
from asyncsearch.simulate.recorded_workload import RecordedWorkload
from asyncsearch.simulate.simulated_search import simulate
from asyncsearch.space import Space
from asyncsearch.store.base_store import Store
from asyncsearch.trial import TrialState

WORKERS = (1, 2, 4, 8, 16)
_NO_CHANCE = Chance()
_LEAST_S = 1e-9
"""From the last report of a trial to its failure, where it went on; 0 says that it failed where it was to stop."""


class Planned(Protocol):
    """What is needed of a ``Study``."""

    config: EngineConfig
    store: Store
    space: Space
    scheduler: Scheduler


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """The study on one number of workers."""

    workers: int
    wall_s: float
    """Seconds from the request to the end of the run."""
    busy_share: float
    """Which share of the workers' time was training, from 0 to 1."""
    best: float | None
    """The best value that would have been reported."""
    guessed: float
    """Share of reports, from 0 to 1, of units to which a trial was never trained: its last value stands in for them."""

    @property
    def worker_s(self) -> float:
        """What is paid for: the time of all workers together, idle or not."""
        return self.workers * self.wall_s


class WhatIf(msgspec.Struct, frozen=True):
    """A study on several numbers of workers; ``str()`` of it is for people."""

    cases: tuple[Case, ...]
    recorded: tuple[int, float] | None
    """How many workers the study really had and how many seconds it took; None: it did not end in one run."""

    def __str__(self) -> str:
        head = ("workers", "time", "speed-up", "worker time", "busy", "best", "guessed")
        rows = [head, *(self._row(case) for case in self.cases)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        if self.recorded is not None:
            workers, wall_s = self.recorded
            lines.append(f"The study itself took {_time(wall_s)} on {workers}.")
        return "\n".join(lines)

    __repr__ = __str__

    def _row(self, case: Case) -> tuple[str, ...]:
        first = self.cases[0]
        return (
            f"{case.workers:,}",
            _time(case.wall_s),
            f"{first.wall_s / case.wall_s:.2f}" if case.wall_s else "-",
            _time(case.worker_s),
            f"{case.busy_share:.0%}",
            "-" if case.best is None else number(case.best),
            f"{case.guessed:.0%}",
        )


def what_if(
    study: Planned,
    workers: Sequence[int] = WORKERS,
    *,
    scheduler: Scheduler | None = None,
    chance: Chance = _NO_CHANCE,
) -> WhatIf:
    """Say how long a study would have taken on other numbers of workers, and what would have been found.

    Every trial of the study is proposed again, in the same order. With other workers other trials may be promoted; of
    units to which a trial was never trained nobody knows the values, and its last one is taken: ``guessed`` says how
    often. Another scheduler guesses more. A trial that failed for good fails where it failed, each time that it is
    tried.

    Args:
        study: a study with trials, as its script describes it or as ``Study.resume(store)`` returns it.
        workers: the numbers of workers.
        scheduler: another one than the study's.
        chance: stragglers and lost work to add.

    Raises:
        UsageError: the study has reported nothing yet, was only opened for reading, or its scheduler makes new
            configurations while it runs.
    """
    if isinstance(study, type) or not hasattr(study, "store") or not hasattr(study, "config"):
        raise UsageError(f"what_if({study!r}): that is no study: write what_if(Study.resume('studies/digits')).")
    decided = scheduler or getattr(study, "scheduler", None)
    if decided is None:
        raise UsageError(
            "A study that was opened for reading does not know its scheduler: use Study.resume(store), which unpickles "
            "it, or say scheduler=."
        )
    if checked(decided, Scheduler, "scheduler").branches:
        raise UsageError(
            f"{reasons.short(decided.describe())} makes new configurations while it runs, and nobody knows their"
            " values: say scheduler= to ask it of another one, or use asyncsearch.simulate.simulate with a workload of"
            " your own."
        )
    counts: Any = workers
    if isinstance(counts, str) or not isinstance(counts, Sequence) or not counts:
        raise UsageError(f"workers={workers!r} must be numbers of workers, from 1, e.g. (1, 2, 4).")
    workers = [positive(f"workers[{at}]", count) for at, count in enumerate(counts)]
    records = list(read_records(study.store))
    cases = tuple(_case(study, decided, count, records, chance) for count in workers)
    return WhatIf(cases, _as_it_was(records))


def recorded(records: Sequence[Record], metric: str) -> RecordedWorkload:
    """Return what a journal says of a study as a workload: of each trial, what the params with which it began led to.

    Raises:
        UsageError: nothing was reported.
    """
    values: dict[TrialId, list[tuple[int, float]]] = defaultdict(list)
    ends = {trial: resource for trial, (_, resource) in branched(records).items()}
    for report in reports(records):
        if metric in report.metrics and report.resource <= ends.get(report.trial, math.inf):
            value = finite(report.metrics[metric])
            values[report.trial].append((report.resource, math.nan if value is None else value))
    params = [action.params for record in records for action in record.actions if isinstance(action, CreateTrial)]
    unit_s, setup_s = _training_times(records)
    delays = Delays(start_s=_launch_time(records), setup_s=setup_s, commit_s=_commit_time(records))
    moves = [action for record in records for action in record.actions if isinstance(action, MoveTrial)]
    ended = [move.trial for move in moves if move.to is TrialState.COMPLETED]
    reached = {trial: curve[-1][0] for trial, curve in values.items()}
    # What failed after it took over another's weights did not fail by the params with which it began.
    failed = {trial: at for trial, at in _failures(records, reached, unit_s, setup_s).items() if trial not in ends}
    return RecordedWorkload(params, values, unit_s, delays, ended, failed)


def _case(study: Planned, scheduler: Scheduler, workers: int, records: Sequence[Record], chance: Chance) -> Case:
    workload = recorded(records, study.config.metric)
    result = simulate(
        workload,
        scheduler=scheduler,
        searcher=workload.searcher,
        space=getattr(study, "space", None),
        metric=study.config.metric,
        mode=study.config.mode,
        workers=workers,
        seed=study.config.seed,
        delays=workload.delays,
        faults=Faults(chance=chance),
        share=study.config.share,
        max_failures=study.config.max_failures,
    )
    return Case(
        workers=workers,
        wall_s=result.wall_s,
        busy_share=result.busy_share,
        best=None if result.best is None else result.best.value,
        guessed=workload.guessed / workload.reports if workload.reports else 0.0,
    )


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else duration(seconds)


def _training_times(records: Iterable[Record]) -> tuple[dict[TrialId, float], float]:
    """Return the seconds of a unit of each trial, and those between work's coming to a worker and its first unit."""
    projection = Projection()
    between: dict[TrialId, list[float]] = defaultdict(lambda: [0.0, 0.0])
    firsts: list[tuple[TrialId, int, float]] = []
    for record in records:
        event = record.event
        progress = projection.leases.get(event.lease.number) if isinstance(event, Reported) else None
        if isinstance(event, Reported) and progress is not None and event.resource > progress.reported:
            trial, units = progress.stages[0].trials[0], event.resource - progress.reported
            if progress.reported_s is None:
                firsts.append((trial, units, record.t - progress.assigned_s))
            else:
                between[trial][0] += record.t - progress.reported_s
                between[trial][1] += units
        projection.add(record)
    unit_s = {trial: seconds / units for trial, (seconds, units) in between.items()}
    setup_s = statistics.median([max(0.0, s - n * unit_s[trial]) for trial, n, s in firsts if trial in unit_s] or [0.0])
    for trial, units, seconds in firsts:
        # With one report of each lease nothing tells starting from training, but that of trials with more.
        unit_s.setdefault(trial, max(0.0, seconds - setup_s) / units)
    return unit_s, setup_s


def _failures(
    records: Iterable[Record], reached: Mapping[TrialId, int], unit_s: Mapping[TrialId, float], setup_s: float
) -> dict[TrialId, tuple[int, float]]:
    """Return, of each trial that failed for good, the units that it had trained and the seconds from there to its end.

    0 seconds: it failed at its target, so that it was not paused, or completed, there.

    Args:
        records: the whole journal, in order.
        reached: of each trial, the resource of its last report; those that reported nothing may be missing.
        unit_s: measured seconds of a unit of each trial; the others take what these take on average.
        setup_s: from work's coming to a worker to the beginning of its first unit.
    """
    mean_s = statistics.fmean(unit_s.values()) if unit_s else 0.0
    projection = Projection()
    latest: dict[TrialId, LeaseProgress] = {}
    found: dict[TrialId, tuple[int, float]] = {}
    for record in records:
        projection.add(record)
        for action in record.actions:
            match action:
                case Assign(work=work):
                    progress = projection.leases[work.lease.number]
                    latest |= dict.fromkeys((trial for stage in progress.stages for trial in stage.trials), progress)
                case MoveTrial(to=TrialState.FAILED, trial=trial):
                    units, last = reached.get(trial, 0), latest.get(trial)
                    if last is None or units == projection.targets[trial]:
                        found[trial] = (units, 0.0 if units == projection.targets[trial] else _LEAST_S)
                    else:  # its last attempt may have failed before it came as far as an earlier one
                        since_s = last.assigned_s + setup_s if last.reported_s is None else last.reported_s
                        again_s = (units - last.reported) * unit_s.get(trial, mean_s)
                        found[trial] = (units, max(record.t - since_s - again_s, _LEAST_S))
                case _:
                    pass
    return found


def _launch_time(records: Iterable[Record]) -> float:
    """Return the median seconds from a launch to the worker's first message."""
    asked: dict[tuple[int, int], float] = {}
    taken = []
    for record in records:
        event = record.event
        if isinstance(event, WorkerAttached) and (event.worker, event.epoch) in asked:
            taken.append(record.t - asked[event.worker, event.epoch])
        for action in record.actions:
            if isinstance(action, LaunchWorker):
                asked[action.worker, action.epoch] = record.t
    return statistics.median(taken) if taken else 0.0


def _commit_time(records: Iterable[Record]) -> float:
    """Return the median seconds from the end of training to its last checkpoint's being durable."""
    ended: dict[int, tuple[int, float]] = {}
    taken = []
    for record in records:
        event = record.event
        if isinstance(event, TrainingEnded) and event.checkpoint_resource is not None:
            ended[event.lease.number] = (event.checkpoint_resource, record.t)
        elif isinstance(event, CheckpointCommitted):
            resource, then = ended.get(event.lease.number, (-1, 0.0))
            if event.checkpoint.resource == resource:
                taken.append(record.t - then)
    return statistics.median(taken) if taken else 0.0


def _as_it_was(records: Iterable[Record]) -> tuple[int, float] | None:
    """Return workers and seconds of a study that was searched in one run to its end."""
    began: list[tuple[int, float]] = []
    took = None
    for record in records:
        if isinstance(record.event, RunRequested):
            began.append((record.event.parallelism, record.t))
        for action in record.actions:
            if isinstance(action, EndRun) and action.is_complete and began:
                took = (began[-1][0], record.t - began[-1][1])
    return took if len(began) == 1 else None
