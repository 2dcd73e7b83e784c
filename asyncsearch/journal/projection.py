"""A projection of the journal: the paths and reports of trials, and the progress of leases.

A stage is trained once; its subscribers, the trials whose paths contain it, all read its reports.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator

import msgspec

from asyncsearch.actions import (
    AddLane,
    AnyAction,
    Assign,
    Branch,
    CreateTrial,
    CutWork,
    ExtendWork,
    Inherit,
    MoveTrial,
    Promote,
    StopTraining,
    extended,
    lanes_given,
    stages_given,
)
from asyncsearch.events import (
    AnyEvent,
    CheckpointCommitted,
    Consulted,
    DriverStarted,
    Learned,
    Reported,
    RunRequested,
    TrainingEnded,
    WorkerLost,
    WorkRefused,
)
from asyncsearch.ids import Lease, NodeKey, PathStep, TrialId, WorkerId
from asyncsearch.journal.format import Record
from asyncsearch.trial import UNBOUNDED, Metrics, Params, TrialState
from asyncsearch.values import unspell
from asyncsearch.work import GangMember, Stage, node_at


class Report(msgspec.Struct, frozen=True):
    """One report of one trial."""

    trial: TrialId
    resource: int
    metrics: Metrics
    t: float
    """Driver's clock, seconds since 1970."""


class LeaseProgress(msgspec.Struct):
    """The progress of training in a lane of a lease."""

    lease: Lease
    stages: tuple[Stage, ...]
    assigned_s: float
    resource: int
    """Resource up to which it has been trained, as reports and checkpoints show."""
    reported: int
    """Resource of its last report; before the first one, the resource at which it began."""
    reported_s: float | None = None
    """Time of its last report. None if there is none yet."""
    wanted: int = UNBOUNDED
    """Resource up to which it should be trained; its worker may pass that before it is told."""
    followers: tuple[GangMember, ...] = ()
    """The workers of its gang except the first one, which has the lease."""

    def is_of(self, worker: WorkerId, epoch: int) -> bool:
        """Return whether a launch of a worker trains it, alone or with others."""
        return (worker, epoch) == (self.lease.worker, self.lease.epoch) or GangMember(worker, epoch) in self.followers


class Projection:
    """Follows a journal: the paths and reports of trials, and the progress of leases."""

    def __init__(self) -> None:
        self.paths: dict[TrialId, tuple[PathStep, ...]] = {}
        self.targets: dict[TrialId, int | None] = {}
        self.leases: dict[int, LeaseProgress] = {}
        """By the number of their attempt, while a worker may train under them: one for each lane of a lease."""
        self.trained = 0
        """Units of training that workers have done, including repeated ones."""
        self._subscribers: dict[NodeKey, dict[TrialId, float]] = {}
        """The trials whose paths contain a node, each with the resource at which its next node begins."""
        self._reached: dict[TrialId, int] = {}
        self._reports: dict[NodeKey, list[tuple[int, Metrics]]] = {}

    def add(self, record: Record) -> list[Report]:
        """Add a record, and return the reports that trials read because of it, in order.

        After a lost attempt some units are trained again; repeated reports are omitted.
        """
        event = record.event
        found = self._report(event, record.t) if isinstance(event, Reported) else []
        if isinstance(event, Learned):
            new = {resource: metrics for resource, metrics in event.reports if metrics}
            self._reports[event.node] = sorted((new | dict(self.reports(event.node))).items())
        self._follow_lease(event)
        for action in record.actions:
            found += self._follow(action, record.t)
        return found

    def reports(self, node: NodeKey) -> list[tuple[int, Metrics]]:
        """Return the reports of a node, by resource."""
        return list(self._reports.get(node, ()))

    def reads(self, trial: TrialId, stage: Stage) -> bool:
        """Return whether a trial reads from a stage that has just been assigned."""
        if trial in stage.trials:
            return True
        if not stage.more or self._subscribers.get(stage.node, {}).get(trial, 0) <= stage.start:
            return False
        target = self.targets[trial]
        return self._reached.get(trial, 0) <= stage.start and (target is None or target > stage.start)

    def _report(self, event: Reported, t: float) -> list[Report]:
        progress = self.leases.get(event.lease.number + event.lane)
        if progress is None:
            return []
        if event.resource > progress.reported:
            progress.reported, progress.reported_s = event.resource, t
        node = node_at(progress.stages, event.resource)
        self._keep(node, event.resource, event.metrics)
        subscribers = sorted(self._subscribers.get(node, {}).items())
        reached = [trial for trial, end in subscribers if event.resource <= end]
        return [report for trial in reached for report in self._read(trial, event.resource, event.metrics, t)]

    def _follow_lease(self, event: AnyEvent) -> None:
        match event:
            case Reported():
                self._advance(event.lease.number + event.lane, event.resource)
            case CheckpointCommitted():
                self._advance(event.lease.number + event.lane, event.checkpoint.resource)
            case TrainingEnded():
                self._advance(event.lease.number + event.lane, event.resource)
                self.leases.pop(event.lease.number + event.lane, None)
            case WorkRefused(lease=lease, lane=lane):
                for number in [n for n, progress in self.leases.items() if progress.lease == lease]:
                    if lane in (None, number - lease.number):
                        del self.leases[number]
            case WorkerLost(worker=worker, epoch=epoch):
                for number in [n for n, progress in self.leases.items() if progress.is_of(worker, epoch)]:
                    del self.leases[number]
            case DriverStarted():
                self.leases.clear()
            case _:
                pass

    def _advance(self, number: int, resource: int) -> None:
        progress = self.leases.get(number)
        if progress is not None and resource > progress.resource:
            self.trained += resource - progress.resource
            progress.resource = resource

    def _follow(self, action: AnyAction, t: float) -> list[Report]:
        match action:
            case CreateTrial():
                self.paths[action.trial] = action.path or (PathStep(0, action.node),)
                self.targets[action.trial] = action.target
                self._join(action.trial)
            case Promote():
                self.targets[action.trial] = action.to_resource
                self._join(action.trial)
            case Branch():
                self._leave(action.trial)
                self.paths[action.trial] = action.path or (PathStep(0, action.node),)
                self.targets[action.trial] = action.to_resource
                self._reached[action.trial] = action.resource
                self._join(action.trial)
            case MoveTrial() if action.to.is_finished:
                self._leave(action.trial)
            case Assign() | AddLane():
                followers = action.work.followers if isinstance(action, Assign) else ()
                for given in lanes_given(action):
                    stages = given.lane.stages
                    start = stages[0].start
                    progress = LeaseProgress(given.lease, stages, t, start, start, followers=followers)
                    self.leases[given.attempt] = progress
            case ExtendWork() if action.lease.number + action.lane in self.leases:
                progress = self.leases[action.lease.number + action.lane]
                progress.stages = extended(progress.stages, action)
            case CutWork() | StopTraining() if action.lease.number + action.lane in self.leases:
                progress = self.leases[action.lease.number + action.lane]
                progress.wanted = min(
                    progress.wanted, action.stop if isinstance(action, CutWork) else progress.resource
                )
            case Inherit():
                return self._inherit(action, t)
            case _:
                pass
        return []

    def _join(self, trial: TrialId) -> None:
        for node, end in self._spans(trial):
            self._subscribers.setdefault(node, {})[trial] = end

    def _leave(self, trial: TrialId) -> None:
        for step in self.paths.get(trial, ()):
            self._subscribers.get(step.node, {}).pop(trial, None)

    def _inherit(self, action: Inherit, t: float) -> list[Report]:
        found = []
        for node, end in self._spans(action.trial):
            for resource, metrics in self._reports.get(node, ()):
                if resource <= min(end, action.resource):
                    found += self._read(action.trial, resource, metrics, t)
        return found

    def _spans(self, trial: TrialId) -> Iterator[tuple[NodeKey, float]]:
        """Yield the nodes of a trial's path, each with the resource at which the next one begins."""
        path = self.paths[trial]
        for number, step in enumerate(path):
            yield step.node, path[number + 1].start if number + 1 < len(path) else math.inf

    def _read(self, trial: TrialId, resource: int, metrics: Metrics, t: float) -> list[Report]:
        target = self.targets[trial]
        if resource <= self._reached.get(trial, 0) or (target is not None and resource > target):
            return []
        self._reached[trial] = resource
        return [Report(trial, resource, metrics, t)]

    def _keep(self, node: NodeKey, resource: int, metrics: Metrics) -> None:
        kept = self._reports.setdefault(node, [])
        at = bisect.bisect_left(kept, resource, key=lambda report: report[0])
        if at == len(kept) or kept[at][0] != resource:  # an evaluation may have a lower resource than the last report
            kept.insert(at, (resource, metrics))


def reports(records: Iterable[Record]) -> Iterator[Report]:
    """Yield every counted report, once for each trial that read it, in the order of the journal."""
    projection = Projection()
    for record in records:
        yield from projection.add(record)


def last_metrics(records: Iterable[Record]) -> dict[TrialId, dict[str, float]]:
    """Return the last value of each metric that a trial has reported, by trial; the names in the order of reports."""
    found: dict[TrialId, dict[str, float]] = {}
    for report in reports(records):
        its = found.setdefault(report.trial, {})
        for name, value in report.metrics.items():
            its[name] = unspell(value)
    return found


def last_notes(records: Iterable[Record]) -> dict[TrialId, dict[str, str]]:
    """Return the notes that trials have left, by trial and key; those of a shared stage are its first trials'."""
    trials: dict[int, tuple[TrialId, ...]] = {}
    found: dict[TrialId, dict[str, str]] = {}
    for record in records:
        event = record.event
        if isinstance(event, Consulted) and "note" in event.facts:
            for trial in trials.get(event.lease.number + event.lane, ()):
                found.setdefault(trial, {})[str(event.facts["note"])] = str(event.facts.get("text", ""))
        for action in record.actions:
            trials |= {given.attempt: given.lane.stages[0].trials for given in lanes_given(action)}
    return found


def last_total(records: Iterable[Record]) -> int | None:
    """Return the total of trials that the last run requested. None if there is no limit, or was no run."""
    totals = [record.event.num_trials for record in records if isinstance(record.event, RunRequested)]
    return totals[-1] if totals else None


def branched(records: Iterable[Record]) -> dict[TrialId, tuple[Params, int]]:
    """Return the trials that copied another trial's weights, with their first params and the resource of the change.

    A trial's reports beyond that resource do not belong to those params.
    """
    begun: dict[TrialId, Params] = {}
    found: dict[TrialId, tuple[Params, int]] = {}
    for record in records:
        for action in record.actions:
            if isinstance(action, CreateTrial):
                begun[action.trial] = action.params
            elif isinstance(action, Branch):
                found.setdefault(action.trial, (begun[action.trial], action.resource))
    return found


def history(records: Iterable[Record], trial: TrialId) -> list[tuple[int, Metrics]]:
    """Return the reports of one trial as (resource, metrics), ordered by resource."""
    return [(report.resource, report.metrics) for report in reports(records) if report.trial == trial]


def trained_with(records: Iterable[Record], trial: TrialId) -> list[tuple[int, int | None, TrialId]]:
    """Return the intervals of a trial that were trained with another trial, which has their log: (from, to, other).

    ``to`` is None if the interval lasts to the end of its function.
    """
    found: dict[tuple[int, int | None, TrialId], None] = {}
    projection = Projection()
    for record in records:
        projection.add(record)
        for action in record.actions:
            for stage in stages_given(action):
                if stage.trials[0] != trial and projection.reads(trial, stage):
                    found[stage.start, stage.stop, stage.trials[0]] = None
    return sorted(found, key=lambda interval: interval[0])


def last_failure(records: Iterable[Record]) -> str:
    """Return the traceback of the last trial that failed, or its reason if it has none. Empty if none failed."""
    found = ""
    for record in records:
        for action in record.actions:
            if isinstance(action, MoveTrial) and action.to is TrialState.FAILED:
                found = action.detail or action.reason
    return found
