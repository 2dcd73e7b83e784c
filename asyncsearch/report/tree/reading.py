"""The stage tree of a study as its journal tells it: who wants which interval of which node, and what became of it.

Rule: paths and trees may be 10^5 deep, so nothing here calls itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from asyncsearch.actions import AnyAction, Assign, Branch, CreateTrial, CutWork, MoveTrial, Promote, StopTraining
from asyncsearch.events import (
    CheckpointCommitted,
    DriverStarted,
    Learned,
    Reported,
    TrainingEnded,
    WorkerLost,
    WorkRefused,
)
from asyncsearch.ids import Lease, NodeKey, PathStep, TrialId
from asyncsearch.journal.format import Record
from asyncsearch.nonfinite import finite
from asyncsearch.report.tree.intervals import forget_beyond, intervals, without
from asyncsearch.report.tree.view import TreeNode, TreeView, TrialPath
from asyncsearch.trial import TrialState
from asyncsearch.work import Stage, Work

_ENDLESS = 2**62


class _Running(msgspec.Struct):
    lease: Lease
    stops: list[tuple[int, NodeKey]]
    at: int
    wanted: int
    """Resource up to which it is to go on; it may come further before it hears of that."""


class TreeReader:
    """Follows a journal."""

    def __init__(self, metric: str) -> None:
        self._metric = metric
        self._nodes: dict[NodeKey, TreeNode] = {}
        self._ways: dict[TrialId, TrialPath] = {}
        self._running: dict[int, _Running] = {}
        self._trained = 0

    def add(self, record: Record) -> None:
        """Take a record in."""
        match record.event:
            case Reported(lease=lease, resource=resource, metrics=metrics):
                self._advance(lease, resource, finite(metrics.get(self._metric)))
            case CheckpointCommitted(lease=lease, checkpoint=checkpoint):
                self._advance(lease, checkpoint.resource)
            case TrainingEnded(lease=lease, resource=resource):
                self._advance(lease, resource)
                self._running.pop(lease.number, None)
            case WorkerLost(worker=worker, epoch=epoch):
                gone = [n for n, r in self._running.items() if (r.lease.worker, r.lease.epoch) == (worker, epoch)]
                for number in gone:
                    del self._running[number]
            case WorkRefused(lease=lease):
                self._running.pop(lease.number, None)
            case Learned():
                self._learn(record.event)
            case DriverStarted():
                self._running.clear()
            case _:
                pass
        for action in record.actions:
            self._follow(action)

    def _advance(self, lease: Lease, resource: int, value: float | None = None) -> None:
        run = self._running.get(lease.number)
        if run is None or resource < run.at:
            return
        self._trained += resource - run.at
        for stop, key in run.stops:
            node = self._nodes.get(key)
            if node is not None and node.start < resource and run.at <= stop:
                node.elsewhere = list(without(node.elsewhere, max(node.start, run.at), min(stop, resource)))
                node.done = max(node.done, min(stop, resource))
                is_new = resource > run.at and (not node.values or node.values[-1][0] < resource)
                if value is not None and resource <= stop and is_new:
                    node.values.append((resource, value))
            if stop >= resource:
                break
        run.at = resource

    def _learn(self, event: Learned) -> None:
        """Know what other studies have trained in a node."""
        node = self._nodes.get(event.node)
        if node is None:
            return
        reach = max([event.ended or 0, *(resource for resource, _ in event.reports)])
        if reach > node.done:
            node.elsewhere.append((node.done, reach))
            node.done = reach
        found = {resource: finite(metrics.get(self._metric)) for resource, metrics in event.reports}
        new = {resource: value for resource, value in found.items() if value is not None}
        node.values = sorted((new | dict(node.values)).items())

    def _follow(self, action: AnyAction) -> None:
        match action:
            case CreateTrial():
                self._create(action)
            case Promote():
                way = self._ways[action.trial]
                way.state, way.end = TrialState.WAITING, action.to_resource
            case Branch():
                self._branch(action)
            case MoveTrial():
                way = self._ways[action.trial]
                way.state = action.to
                if action.to.is_finished:
                    way.end = self._reached(way)
            case Assign():
                self._assign(action.work)
            case CutWork() if action.lease.number in self._running:
                run = self._running[action.lease.number]
                run.wanted = min(run.wanted, action.stop)
            case StopTraining() if action.lease.number in self._running:
                run = self._running[action.lease.number]
                run.wanted = min(run.wanted, run.at)
            case _:
                pass

    def _assign(self, work: Work) -> None:
        stages = work.lanes[0].stages
        stops = [(_ENDLESS if stage.stop is None else stage.stop, stage.node) for stage in stages]
        self._running[work.lease.number] = _Running(work.lease, stops, stages[0].start, _ENDLESS)
        for stage, (stop, _) in zip(stages, stops, strict=True):
            for way in self._asking(stage):
                if way.end <= stop and way.state is TrialState.WAITING:
                    way.state = TrialState.RUNNING

    def _asking(self, stage: Stage) -> Iterator[TrialPath]:
        """Yield the ways that lead through a stage and beyond its start; it lists only the first of many."""
        if not stage.more:
            yield from (self._ways[trial] for trial in stage.trials)
            return
        for way in self._ways.values():
            if way.end > stage.start and any(step.node == stage.node for step in way.path):
                yield way

    def _create(self, action: CreateTrial) -> None:
        path = action.path or (PathStep(0, action.node),)
        end = _ENDLESS if action.target is None else action.target
        way = self._ways[action.trial] = TrialPath(action.trial, action.params, path, end)
        self._grow(way)

    def _branch(self, action: Branch) -> None:
        way = self._ways[action.trial]
        here = next(step.node for step in reversed(way.path) if step.start < way.end)
        self._nodes[here].left.append((way.end, way.trial))
        way.state, way.end, way.params = TrialState.WAITING, action.to_resource, action.params
        way.path = action.path or (PathStep(0, action.node),)
        self._grow(way)

    def _grow(self, way: TrialPath) -> None:
        parent = None
        for step in way.path:
            if step.node not in self._nodes:
                self._nodes[step.node] = TreeNode(step.start, way.params, parent, done=step.start)
                if parent is not None:
                    self._nodes[parent].children.append(step.node)
            parent = step.node

    def _reached(self, way: TrialPath) -> int:
        """Return up to where all of a trial's way is trained, at most its end."""
        for step, after in zip(way.path, [*way.path[1:], None], strict=True):
            done = self._nodes[step.node].done
            if after is None or done < after.start:
                return min(done, way.end)
        return 0

    def tree(self) -> TreeView:
        """Return the tree as it stands; the journal cannot be followed any further then."""
        ways = list(self._ways.values())
        for way in ways:
            way.reached = self._reached(way)
        here = [node.elsewhere[0][0] if node.elsewhere else node.done for node in self._nodes.values()]
        known = [way.end for way in ways if way.end < _ENDLESS] + here
        horizon = max([*known, 1])
        if any(way.end == _ENDLESS for way in ways):
            horizon += max(1, horizon // 10)
        asked = sum(way.reached if way.end == _ENDLESS else way.end for way in ways)
        exits: dict[NodeKey, list[tuple[int, TrialId]]] = {key: [] for key in self._nodes}
        for way in ways:
            way.end = min(way.end, horizon)
            self._leave(way, exits)
        for key, node in self._nodes.items():
            forget_beyond(node, max([stop for stop, _ in exits[key]], default=node.start))
        busy = self._busy(horizon)
        for key, node in self._nodes.items():
            node.intervals = list(intervals(node, exits[key], busy.get(key, [])))
        for node in self._nodes.values():
            node.children = [key for key in node.children if self._nodes[key].intervals]
        nodes = {key: node for key, node in self._nodes.items() if node.intervals}
        roots = [key for key, node in nodes.items() if node.parent is None]
        elsewhere = sum(stop - start for node in nodes.values() for start, stop in node.elsewhere)
        return TreeView(nodes, roots, ways, asked, self._trained, elsewhere, sum(way.reached for way in ways), horizon)

    def _leave(self, way: TrialPath, exits: dict[NodeKey, list[tuple[int, TrialId]]]) -> None:
        """Note where a trial leaves each node on its way, and its last value."""
        for step, after in zip(way.path, [*way.path[1:], None], strict=True):
            if step.start >= way.end and step.start > 0:
                return
            leaves = way.end if after is None else min(after.start, way.end)
            exits[step.node].append((leaves, way.trial))
            node = self._nodes[step.node]
            if leaves == way.end:
                node.ends.append(way)
            seen = min(leaves, way.reached)
            way.value = next((v for r, v in reversed(node.values) if r <= seen), way.value)

    def _busy(self, horizon: int) -> dict[NodeKey, list[tuple[int, int]]]:
        """Return the intervals of each node that workers are training."""
        busy: dict[NodeKey, list[tuple[int, int]]] = {}
        for run in self._running.values():
            at = run.at
            for stop, key in run.stops:
                end = min(stop, horizon, run.wanted)
                if at < end:
                    busy.setdefault(key, []).append((at, end))
                at = max(at, stop)
        return busy


def read_tree(records: Iterable[Record], metric: str) -> TreeView:
    """Return the stage tree that a whole journal tells."""
    reader = TreeReader(metric)
    for record in records:
        reader.add(record)
    return reader.tree()
