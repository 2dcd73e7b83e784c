"""From the journal of a study to its stage tree: which trials read which interval, and who has trained it.

Rule: paths and trees may be 10^5 deep, so no function here is recursive.
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
    """Builds the tree, record by record."""

    def __init__(self, metric: str) -> None:
        self._metric = metric
        self._nodes: dict[NodeKey, TreeNode] = {}
        self._paths: dict[TrialId, TrialPath] = {}
        self._running: dict[int, _Running] = {}
        self._trained = 0

    def add(self, record: Record) -> None:
        """Apply a record."""
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
        """Mark the units of a node that other studies have trained."""
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
                path = self._paths[action.trial]
                path.state, path.end = TrialState.WAITING, action.to_resource
            case Branch():
                self._branch(action)
            case MoveTrial():
                path = self._paths[action.trial]
                path.state = action.to
                if action.to.is_finished:
                    path.end = self._reached(path)
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
            for path in self._readers(stage):
                if path.end <= stop and path.state is TrialState.WAITING:
                    path.state = TrialState.RUNNING

    def _readers(self, stage: Stage) -> Iterator[TrialPath]:
        """Yield the paths through a stage and beyond its start; a stage names only the first of many trials."""
        if not stage.more:
            yield from (self._paths[trial] for trial in stage.trials)
            return
        for path in self._paths.values():
            if path.end > stage.start and any(step.node == stage.node for step in path.steps):
                yield path

    def _create(self, action: CreateTrial) -> None:
        steps = action.path or (PathStep(0, action.node),)
        end = _ENDLESS if action.target is None else action.target
        path = self._paths[action.trial] = TrialPath(action.trial, action.params, steps, end)
        self._grow(path)

    def _branch(self, action: Branch) -> None:
        path = self._paths[action.trial]
        here = next(step.node for step in reversed(path.steps) if step.start < path.end)
        self._nodes[here].branched.append((path.end, path.trial))
        path.state, path.end, path.params = TrialState.WAITING, action.to_resource, action.params
        path.steps = action.path or (PathStep(0, action.node),)
        self._grow(path)

    def _grow(self, path: TrialPath) -> None:
        parent = None
        for step in path.steps:
            if step.node not in self._nodes:
                self._nodes[step.node] = TreeNode(step.start, path.params, parent, done=step.start)
                if parent is not None:
                    self._nodes[parent].children.append(step.node)
            parent = step.node

    def _reached(self, path: TrialPath) -> int:
        """Return the resource up to which a trial's path is trained without a gap, at most its end."""
        for step, after in zip(path.steps, [*path.steps[1:], None], strict=True):
            done = self._nodes[step.node].done
            if after is None or done < after.start:
                return min(done, path.end)
        return 0

    def tree(self) -> TreeView:
        """Return the tree as it is now; no more records can be added afterwards."""
        paths = list(self._paths.values())
        for path in paths:
            path.reached = self._reached(path)
        here = [node.elsewhere[0][0] if node.elsewhere else node.done for node in self._nodes.values()]
        known = [path.end for path in paths if path.end < _ENDLESS] + here
        horizon = max([*known, 1])
        if any(path.end == _ENDLESS for path in paths):
            horizon += max(1, horizon // 10)
        asked = sum(path.reached if path.end == _ENDLESS else path.end for path in paths)
        exits: dict[NodeKey, list[tuple[int, TrialId]]] = {key: [] for key in self._nodes}
        for path in paths:
            path.end = min(path.end, horizon)
            self._leave(path, exits)
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
        return TreeView(
            nodes, roots, paths, asked, self._trained, elsewhere, sum(path.reached for path in paths), horizon
        )

    def _leave(self, path: TrialPath, exits: dict[NodeKey, list[tuple[int, TrialId]]]) -> None:
        """Enter where a trial leaves each node of its path, and its last value."""
        for step, after in zip(path.steps, [*path.steps[1:], None], strict=True):
            if step.start >= path.end and step.start > 0:
                return
            leaves = path.end if after is None else min(after.start, path.end)
            exits[step.node].append((leaves, path.trial))
            node = self._nodes[step.node]
            if leaves == path.end:
                node.ends.append(path)
            seen = min(leaves, path.reached)
            path.value = next((v for r, v in reversed(node.values) if r <= seen), path.value)

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
    """Return the stage tree of a whole journal."""
    reader = TreeReader(metric)
    for record in records:
        reader.add(record)
    return reader.tree()
