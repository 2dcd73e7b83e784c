"""From the journal of a study to its stage tree: which trials read which interval, and who has trained it.

Rule: paths and trees may be 10^5 deep, so no function here is recursive.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator

from asyncsearch.actions import (
    AddLane,
    AnyAction,
    Assign,
    Branch,
    CreateTrial,
    ExtendWork,
    MoveTrial,
    Promote,
    lanes_given,
)
from asyncsearch.events import Imported, Learned, LeaseEvent
from asyncsearch.ids import NodeKey, TrialId
from asyncsearch.journal.format import Record
from asyncsearch.journal.projection import LeaseProgress, Projection
from asyncsearch.report.tree.view import MOST_NAMED, Interval, Kind, TreeNode, TreeView, TrialPath
from asyncsearch.trial import UNBOUNDED, TrialState, horizon_of
from asyncsearch.values import finite
from asyncsearch.work import Stage


class TreeReader:
    """Builds the tree, record by record."""

    def __init__(self, metric: str) -> None:
        self._metric = metric
        self._nodes: dict[NodeKey, TreeNode] = {}
        self._paths: dict[TrialId, TrialPath] = {}
        self._imported: dict[NodeKey, Imported] = {}
        """The intervals taken over in nodes that no trial has entered yet."""
        self._projection = Projection()

    def add(self, record: Record) -> None:
        """Apply a record."""
        event = record.event
        # A refusal or a timeout of a whole lease names no lane.
        number = event.lease.number + (getattr(event, "lane", None) or 0) if isinstance(event, LeaseEvent) else -1
        progress = self._projection.leases.get(number)
        before = 0 if progress is None else progress.resource
        self._projection.add(record)
        if progress is not None and progress.resource > before:
            self._train(progress, before)
        if isinstance(event, Learned):
            self._learn(event)
        for action in record.actions:
            self._follow(action)

    def _train(self, progress: LeaseProgress, before: int) -> None:
        """Let a lease's progress reach the nodes of its stages."""
        for stage in progress.stages:
            node, stop = self._nodes.get(stage.node), horizon_of(stage.stop)
            if node is not None and node.start < progress.resource and before <= stop:
                node.elsewhere = list(without(node.elsewhere, max(node.start, before), min(stop, progress.resource)))
                node.done = max(node.done, min(stop, progress.resource))
            if stop >= progress.resource:
                break

    def _learn(self, event: Learned) -> None:
        """Mark the units of a node that other studies have trained."""
        node = self._nodes.get(event.node)
        if node is None:
            if isinstance(event, Imported):
                self._imported[event.node] = event
            return
        reach = max([event.ended or 0, *(resource for resource, _ in event.reports)])
        if reach > node.done:
            node.elsewhere.append((node.done, reach))
            node.done = reach

    def _follow(self, action: AnyAction) -> None:
        match action:
            case CreateTrial():
                self._create(action)
            case Promote():
                path = self._paths[action.trial]
                path.end = action.to_resource
                if path.state is not TrialState.RUNNING:  # else it goes on where it is
                    path.state = TrialState.WAITING
            case Branch():
                self._branch(action)
            case MoveTrial():
                path = self._paths[action.trial]
                path.state = action.to
                if action.to.is_finished:
                    path.end = self._reached(path)
            case Assign() | AddLane():
                for given in lanes_given(action):
                    self._assign(given.lane.stages)
            case ExtendWork(stages=(first, *_)):
                for trial in first.trials:
                    self._paths[trial].in_place += (first.start,)
            case _:
                pass

    def _assign(self, stages: Iterable[Stage]) -> None:
        for stage in stages:
            for trial in self._paths if stage.more else stage.trials:
                path = self._paths[trial]
                is_waiting = path.state is TrialState.WAITING and path.end <= horizon_of(stage.stop)
                if is_waiting and self._projection.reads(trial, stage):
                    path.state = TrialState.RUNNING

    def _create(self, action: CreateTrial) -> None:
        end = horizon_of(action.target)
        steps = self._projection.paths[action.trial]
        path = self._paths[action.trial] = TrialPath(action.trial, action.params, steps, end)
        self._grow(path)

    def _branch(self, action: Branch) -> None:
        path = self._paths[action.trial]
        here = next(step.node for step in reversed(path.steps) if step.start < path.end)
        self._nodes[here].branched.append((path.end, path.trial))
        path.state, path.end, path.params = TrialState.WAITING, action.to_resource, action.params
        path.steps = self._projection.paths[action.trial]
        self._grow(path)

    def _grow(self, path: TrialPath) -> None:
        parent = None
        for step in path.steps:
            if step.node not in self._nodes:
                self._nodes[step.node] = TreeNode(step.start, path.params, parent, done=step.start)
                if parent is not None:
                    self._nodes[parent].children.append(step.node)
                if step.node in self._imported:
                    self._learn(self._imported.pop(step.node))
            parent = step.node

    def _reached(self, path: TrialPath) -> int:
        """Return the resource up to which a trial's path is trained without a gap, at most its end."""
        for step, after in zip(path.steps, [*path.steps[1:], None], strict=True):
            done = self._nodes[step.node].done
            if after is None or done < after.start:
                return min(done, path.end)
        return 0

    def tree(self, *, is_running: bool = True) -> TreeView:
        """Return the tree as it is now; no more records can be added afterwards.

        ``is_running``: whether a run is in progress; else what workers had begun is to be continued.
        """
        paths = list(self._paths.values())
        for key, node in self._nodes.items():
            found = ((at, finite(metrics.get(self._metric))) for at, metrics in self._projection.reports(key))
            node.values = [(at, value) for at, value in found if value is not None]
        for path in paths:
            path.reached = self._reached(path)
        here = [node.elsewhere[0][0] if node.elsewhere else node.done for node in self._nodes.values()]
        known = [path.end for path in paths if path.end < UNBOUNDED] + here
        horizon = max([*known, 1])
        if any(path.end == UNBOUNDED for path in paths):
            horizon += max(1, horizon // 10)
        asked = sum(path.reached if path.end == UNBOUNDED else path.end for path in paths)
        exits: dict[NodeKey, list[tuple[int, TrialId]]] = {key: [] for key in self._nodes}
        for path in paths:
            path.end = min(path.end, horizon)
            self._leave(path, exits)
        for key, node in self._nodes.items():
            forget_beyond(node, max([stop for stop, _ in exits[key]], default=node.start))
        busy, left = (self._busy(horizon), Kind.WAITING) if is_running else ({}, Kind.CONTINUED)
        for key, node in self._nodes.items():
            node.intervals = list(intervals(node, exits[key], busy.get(key, []), left))
        for node in self._nodes.values():
            node.children = [key for key in node.children if self._nodes[key].intervals]
        nodes = {key: node for key, node in self._nodes.items() if node.intervals}
        roots = [key for key, node in nodes.items() if node.parent is None]
        elsewhere = sum(stop - start for node in nodes.values() for start, stop in node.elsewhere)
        served = sum(path.reached for path in paths)
        return TreeView(nodes, roots, paths, asked, self._projection.trained, elsewhere, served, horizon)

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
        for progress in self._projection.leases.values():
            at = progress.resource
            for stage in progress.stages:
                end = min(horizon_of(stage.stop), horizon, progress.wanted)
                if at < end:
                    busy.setdefault(stage.node, []).append((at, end))
                at = max(at, horizon_of(stage.stop))
        return busy


def read_tree(records: Iterable[Record], metric: str, *, is_running: bool = True) -> TreeView:
    """Return the stage tree of a whole journal; ``is_running``: whether a run is in progress."""
    reader = TreeReader(metric)
    for record in records:
        reader.add(record)
    return reader.tree(is_running=is_running)


def without(parts: list[tuple[int, int]], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield ascending intervals, less the part that lies between ``start`` and ``stop``."""
    for low, high in parts:
        if low < min(high, start):
            yield low, min(high, start)
        if max(low, stop) < high:
            yield max(low, stop), high


def forget_beyond(node: TreeNode, stop: int) -> None:
    """Leave out the units that other studies have trained beyond the last reader here."""
    kept = [(low, min(high, stop)) for low, high in node.elsewhere if low < stop]
    if kept != node.elsewhere:
        node.done = min(node.done, max(stop, node.elsewhere[0][0]))
        node.elsewhere = kept


def intervals(
    node: TreeNode, exits: list[tuple[int, TrialId]], busy: list[tuple[int, int]], left: Kind = Kind.WAITING
) -> Iterator[Interval]:
    """Yield the intervals of a node in order, from where trials leave it and the parts that workers are training.

    ``left``: what is left to train.
    """
    cuts = {stop for stop, _ in exits} | {node.start, node.done}
    cuts |= {cut for interval in [*busy, *node.elsewhere] for cut in interval}
    ordered = sorted(cut for cut in cuts if cut >= node.start)
    leaving = sorted(exits)
    found: list[Interval] = []
    named: list[TrialId] = []
    count = 0
    # From the end to the start: a trial reads all intervals before the one where it leaves.
    for start, stop in zip(reversed(ordered[:-1]), reversed(ordered[1:]), strict=True):
        while leaving and leaving[-1][0] >= stop:
            insort(named, leaving.pop()[1])
            del named[MOST_NAMED:]
            count += 1
        if any(low <= start and stop <= high for low, high in busy):
            kind = Kind.RUNNING
        elif any(low <= start and stop <= high for low, high in node.elsewhere):
            kind = Kind.ELSEWHERE
        elif stop <= node.done:
            kind = Kind.SHARED if count > 1 else Kind.TRAINED
        else:
            kind = left
        found.append(Interval(start, stop, kind, count, tuple(named)))
    return reversed(found)
