"""How long an earlier study would have taken on other numbers of workers: ``print(what_if(study))``.

The engine runs as it is on a virtual clock. The configurations, their values and failures, and the times of units,
launches, starts and commits are those of the study's journal. ``pack=`` says how many train together instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec

from asyncsearch.actions import EndRun
from asyncsearch.arguments import checked, positive
from asyncsearch.engine.config import EngineConfig
from asyncsearch.errors import UsageError
from asyncsearch.events import RunRequested
from asyncsearch.journal.format import Record
from asyncsearch.journal.opening import read_records
from asyncsearch.journal.projection import last_total
from asyncsearch.report.formatting import aligned, duration, number
from asyncsearch.report.what_if.recorded_study import recorded
from asyncsearch.report.what_if.recorded_units import Speedups
from asyncsearch.report.what_if.scaling import Packs, packing_asked, packs_to_simulate, scaling_of
from asyncsearch.schedulers import reasons
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.sentences import in_sentences
from asyncsearch.simulate.options import Chance, Faults, TrainingModel
from asyncsearch.simulate.recorded_workload import RecordedWorkload
from asyncsearch.simulate.result import SimulationResult
from asyncsearch.simulate.simulated_search import simulate
from asyncsearch.sizing.gangs import Gang
from asyncsearch.sizing.packing import Packing, grouping_by
from asyncsearch.space import Space
from asyncsearch.store.base_store import Store

WORKERS = (1, 2, 4, 8, 16)
_NO_CHANCE = Chance()


class Planned(Protocol):
    """The part of a ``Study`` that is needed."""

    config: EngineConfig

    @property
    def store(self) -> Store: ...
    @property
    def space(self) -> Space: ...
    @property
    def scheduler(self) -> Scheduler: ...


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """The study on one number of workers."""

    workers: int
    wall_s: float
    """Seconds from the request of the run to its end."""
    busy_share: float
    """The share of the workers' time that was training, from 0 to 1."""
    best: float | None
    """The best value that the search would have reported."""
    guessed: float
    """Share of reports, from 0 to 1, beyond a trial's real training, for which its last value was taken."""
    alone_s: float | None = None
    """Seconds of the same search if each trial trained alone; None if it does, or what packs gain is not known."""

    @property
    def worker_s(self) -> float:
        """The time of all workers together, idle or not, which is what a cluster costs."""
        return self.workers * self.wall_s

    @property
    def saved(self) -> float | None:
        """The share of time that packing saves, from 0 to 1, negative where it costs time; None if not known."""
        return None if not self.alone_s else 1 - self.wall_s / self.alone_s


class WhatIf(msgspec.Struct, frozen=True):
    """A study on several numbers of workers; ``str()`` of it is for people."""

    cases: tuple[Case, ...]
    recorded: tuple[int, float] | None
    """Workers and seconds of the study itself; None if it did not end in one run."""
    packed: str = ""
    """How many trials train together, and by what that is reckoned, in words; empty if each trains alone."""

    def __str__(self) -> str:
        head = ("workers", "time", "speed-up", "worker time", "busy", "best", "guessed")
        rows = [head, *(self._row(case) for case in self.cases)]
        if any(case.alone_s is not None for case in self.cases):
            rows = [(*row, *more) for row, more in zip(rows, self._without_packs(), strict=True)]
        lines = aligned(rows)
        if self.packed:
            lines.append(self.packed)
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

    def _without_packs(self) -> list[tuple[str, str]]:
        times = [("-" if case.alone_s is None else _time(case.alone_s)) for case in self.cases]
        shares = [("-" if case.saved is None else f"{case.saved:.0%}") for case in self.cases]
        return [("unpacked", "packing saves"), *zip(times, shares, strict=True)]


@in_sentences()
def what_if(
    study: Planned,
    workers: Sequence[int] = WORKERS,
    *,
    scheduler: Scheduler | None = None,
    chance: Chance = _NO_CHANCE,
    pack: int | str | None = None,
    pack_speedup: Speedups | None = None,
) -> WhatIf:
    """Return how long a study would have taken on other numbers of workers, and what it would have found.

    Every trial of the study is proposed again, in the same order. With other workers, other trials may be promoted.
    Beyond the units that a trial really trained its values are unknown, and its last one is taken; ``guessed`` is the
    share of such reports, which is larger with another scheduler. A FAILED trial fails again at the same resource.

    Args:
        study: a study with trials, made by its script or by ``Study.resume(store)``.
        workers: the numbers of workers.
        scheduler: instead of the study's own.
        chance: stragglers and lost work to add.
        pack: how many alike trials a worker trains together, or ``"auto"``, as of a ``Study``; 1: each alone; None
            means as in the study.
        pack_speedup: how many times as much packs train in the same time, as of ``TrainingModel``; None means as
            measured in the study.

    Raises:
        UsageError: the study has no reports yet, was opened for reading only, has a scheduler that makes new
            configurations during the search, or nothing is known of what packs gain.
    """
    if isinstance(study, type) or not hasattr(study, "store") or not hasattr(study, "config"):
        place = repr(study) if isinstance(study, str) else "'studies/digits'"
        raise UsageError(f"what_if({study!r}): this is not a study: write what_if(Study.resume({place})).")
    decided = scheduler or getattr(study, "scheduler", None)
    if decided is None:
        raise UsageError(
            "A study that was opened for reading does not know its scheduler: use Study.resume(store), which unpickles "
            "it, or pass scheduler=."
        )
    if checked(decided, Scheduler, "scheduler").branches:
        raise UsageError(
            f"{reasons.short(decided.describe())} makes new configurations during the search, whose values are unknown:"
            " pass another scheduler=, or use asyncsearch.simulate.simulate with a workload of your own."
        )
    counts: Any = workers
    if isinstance(counts, str) or not isinstance(counts, Sequence) or not counts:
        raise UsageError(
            f"workers={workers!r} must be a sequence of numbers of workers, each at least 1, e.g. (1, 2, 4)."
        )
    workers = [positive(f"workers[{at}]", count) for at, count in enumerate(counts)]
    records = list(read_records(study.store))
    packs = _packs(study, records, pack, pack_speedup)
    if not (enough := [count for count in workers if count >= _each(study)]):
        raise UsageError(f"workers={workers!r}: each trial of this study trains on {_each(study)} workers: name more.")
    cases = tuple(_case(study, decided, count, records, chance, packs) for count in enough)
    return WhatIf(cases, _recorded_run(records), packs.words)


def _each(study: Planned) -> int:
    """Return how many workers train one trial."""
    gang: Gang | None = getattr(study, "gang", None)
    return 1 if gang is None else gang.size


def _packs(study: Planned, records: Sequence[Record], pack: int | str | None, given: Speedups | None) -> Packs:
    TrainingModel(pack_speedup={} if given is None else given)  # checks it
    group = grouping_by(study.config.pack_by)
    workload = recorded(records, study.config.metric, given, group)
    own: Packing | None = getattr(study, "packing", None)
    if own is None and workload.most_lanes > 1:  # it was opened for reading
        own = Packing(workload.most_lanes, group=group)
    return packs_to_simulate(
        packing_asked(own, pack, study.config.pack_by), own, given, workload.pack_speedup, f"what_if(pack={pack!r})"
    )


def _case(
    study: Planned, scheduler: Scheduler, workers: int, records: Sequence[Record], chance: Chance, packs: Packs
) -> Case:
    def simulated(packs: Packs) -> tuple[SimulationResult, RecordedWorkload]:
        workload = recorded(records, study.config.metric, packs.speedup, grouping_by(study.config.pack_by))
        scaling = scaling_of(getattr(study, "gang", None), workers, None, workload.gang_speedup, "what_if()")
        found = simulate(
            workload,
            scheduler=scheduler,
            searcher=workload.searcher,
            space=getattr(study, "space", None),
            metric=study.config.metric,
            mode=study.config.mode,
            num_trials=last_total(records),  # a bracket that waits for all of its trials must know how many
            workers=max(1, workers // _each(study)) if scaling is None else workers,
            seed=study.config.seed,
            delays=workload.delays,
            faults=Faults(chance=chance),
            training=TrainingModel(pack_speedup=packs.speedup, gang_speedup={} if scaling is None else scaling.curve),
            share=study.config.share,
            max_failures=study.config.max_failures,
            pack_by=study.config.pack_by,
            **packs.options,
            **({} if scaling is None else scaling.options),
        )
        return found, workload

    result, workload = simulated(packs)
    return Case(
        workers=workers,
        wall_s=result.wall_s,
        busy_share=result.busy_share,
        best=None if result.best is None else result.best.value,
        guessed=workload.guessed / workload.reports if workload.reports else 0.0,
        alone_s=simulated(packs.alone())[0].wall_s if packs.packing is not None and packs.source else None,
    )


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else duration(seconds)


def _recorded_run(records: Iterable[Record]) -> tuple[int, float] | None:
    """Return workers and seconds of a study that ended in one run; None if it did not."""
    began: list[tuple[int, float]] = []
    took = None
    for record in records:
        if isinstance(record.event, RunRequested):
            began.append((record.event.parallelism, record.t))
        for action in record.actions:
            if isinstance(action, EndRun) and action.is_complete and began:
                took = (began[-1][0], record.t - began[-1][1])
    return took if len(began) == 1 else None
