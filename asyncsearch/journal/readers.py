"""What trials reported, read from the journal. What runs is a stage; each trial whose way leads through it reads it."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator

import msgspec

from asyncsearch.actions import AnyAction, Assign, Branch, CreateTrial, Inherit, MoveTrial, Promote
from asyncsearch.events import Learned, Reported
from asyncsearch.ids import NodeKey, PathStep, TrialId
from asyncsearch.journal.format import Record
from asyncsearch.trial import Metrics, Params
from asyncsearch.work import Stage


class Report(msgspec.Struct, frozen=True):
    """One report of one trial."""

    trial: TrialId
    resource: int
    metrics: Metrics
    t: float
    """Driver's clock, seconds since 1970."""


class Readers:
    """Follows a journal, and knows for each report which trials read it."""

    def __init__(self) -> None:
        self._stages: dict[int, tuple[Stage, ...]] = {}
        self._readers: dict[NodeKey, dict[TrialId, float]] = {}
        """Who reads from a node, and up to which resource: another node comes after it on the way of a trial."""
        self._paths: dict[TrialId, tuple[PathStep, ...]] = {}
        self._targets: dict[TrialId, int | None] = {}
        self._reached: dict[TrialId, int] = {}
        self._kept: dict[NodeKey, list[tuple[int, Metrics]]] = {}

    def add(self, record: Record) -> list[Report]:
        """Take a record in, and return what was read by it, in order.

        After a lost attempt a trial trains some units again; what is then reported again is left out.
        """
        found = []
        event = record.event
        if isinstance(event, Reported):
            node = self._node(event.lease.number, event.resource)
            if node is not None:
                self._keep(node, event.resource, event.metrics)
                for trial, end in sorted(self._readers.get(node, {}).items()):
                    if event.resource <= end:
                        found += self._read(trial, event.resource, event.metrics, record.t)
        elif isinstance(event, Learned):
            self._learn(event)
        for action in record.actions:
            found += self._follow(action, record.t)
        return found

    def reads(self, trial: TrialId, stage: Stage) -> bool:
        """Return whether a trial reads from a stage that was assigned just now."""
        if trial in stage.trials:
            return True
        if not stage.more or self._readers.get(stage.node, {}).get(trial, 0) <= stage.start:
            return False
        target = self._targets[trial]
        return self._reached.get(trial, 0) <= stage.start and (target is None or target > stage.start)

    def kept(self, node: NodeKey) -> list[tuple[int, Metrics]]:
        """Return what was reported in a node, by resource."""
        return list(self._kept.get(node, ()))

    def _learn(self, event: Learned) -> None:
        known = dict(self._kept.get(event.node, ()))
        known = {resource: metrics for resource, metrics in event.reports if metrics} | known
        self._kept[event.node] = sorted(known.items())

    def _follow(self, action: AnyAction, t: float) -> list[Report]:
        match action:
            case CreateTrial():
                self._paths[action.trial] = action.path or (PathStep(0, action.node),)
                self._targets[action.trial] = action.target
                self._join(action.trial)
            case Promote():
                self._targets[action.trial] = action.to_resource
                self._join(action.trial)
            case Branch():
                self._leave(action.trial)
                self._paths[action.trial] = action.path or (PathStep(0, action.node),)
                self._targets[action.trial] = action.to_resource
                self._reached[action.trial] = action.resource
                self._join(action.trial)
            case MoveTrial() if action.to.is_finished:
                self._leave(action.trial)
            case Assign():
                self._stages[action.work.lease.number] = action.work.lanes[0].stages
            case Inherit():
                return self._inherit(action, t)
            case _:
                pass
        return []

    def _join(self, trial: TrialId) -> None:
        for node, end in self._spans(trial):
            self._readers.setdefault(node, {})[trial] = end

    def _leave(self, trial: TrialId) -> None:
        for step in self._paths.get(trial, ()):
            self._readers.get(step.node, {}).pop(trial, None)

    def _inherit(self, action: Inherit, t: float) -> list[Report]:
        found = []
        for node, end in self._spans(action.trial):
            for resource, metrics in self._kept.get(node, ()):
                if resource <= min(end, action.resource):
                    found += self._read(action.trial, resource, metrics, t)
        return found

    def _spans(self, trial: TrialId) -> Iterator[tuple[NodeKey, float]]:
        """Yield the nodes of a trial's way, each with the resource at which the next one begins."""
        path = self._paths[trial]
        for number, step in enumerate(path):
            yield step.node, path[number + 1].start if number + 1 < len(path) else math.inf

    def _read(self, trial: TrialId, resource: int, metrics: Metrics, t: float) -> list[Report]:
        target = self._targets[trial]
        if resource <= self._reached.get(trial, 0) or (target is not None and resource > target):
            return []
        self._reached[trial] = resource
        return [Report(trial, resource, metrics, t)]

    def _keep(self, node: NodeKey, resource: int, metrics: Metrics) -> None:
        kept = self._kept.setdefault(node, [])
        at = bisect.bisect_left(kept, resource, key=lambda report: report[0])
        if at == len(kept) or kept[at][0] != resource:  # what is evaluated may lie below what others trained
            kept.insert(at, (resource, metrics))

    def _node(self, lease: int, resource: int) -> NodeKey | None:
        stages = self._stages.get(lease)
        if stages is None:
            return None
        return next((s.node for s in stages if s.stop is None or resource <= s.stop), stages[-1].node)


def reports(records: Iterable[Record]) -> Iterator[Report]:
    """Yield every report that counted, once for each trial that read it, in the order of the journal."""
    readers = Readers()
    for record in records:
        yield from readers.add(record)


def branched(records: Iterable[Record]) -> dict[TrialId, tuple[Params, int]]:
    """Return the trials that took over another's weights: what each began as, and up to where its reports are its own.

    What it reports beyond that resource is not what the params with which it began lead to.
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
    """Return the reports of one trial as (resource, metrics), in the order of resource."""
    return [(report.resource, report.metrics) for report in reports(records) if report.trial == trial]


def trained_with(records: Iterable[Record], trial: TrialId) -> list[tuple[int, int | None, TrialId]]:
    """Return the intervals of a trial that were trained with another one, which has their log: (from, to, that one).

    ``to`` None: to the end of its function.
    """
    found: dict[tuple[int, int | None, TrialId], None] = {}
    readers = Readers()
    for record in records:
        readers.add(record)
        for action in record.actions:
            if isinstance(action, Assign):
                for stage in action.work.lanes[0].stages:
                    if stage.trials[0] != trial and readers.reads(trial, stage):
                        found[stage.start, stage.stop, stage.trials[0]] = None
    return sorted(found, key=lambda interval: interval[0])
