"""The stage tree of a study as its journal tells it: who wants which interval of which node, and what became of it.

Rule: paths and trees may be 10^5 deep, so nothing here calls itself.
"""

from __future__ import annotations

import enum
from bisect import insort
from collections.abc import Iterable, Iterator

import msgspec

from asyncsearch.actions import AnyAction, Assign, Branch, CreateTrial, CutWork, MoveTrial, Promote, StopTraining
from asyncsearch.events import (
    CheckpointCommitted,
    DriverStarted,
    Imported,
    Learned,
    Reported,
    TrainingEnded,
    WorkerLost,
    WorkRefused,
)
from asyncsearch.ids import Lease, NodeKey, PathStep, TrialId
from asyncsearch.journal.format import Record
from asyncsearch.nonfinite import finite
from asyncsearch.trial import UNBOUNDED, Params, TrialState, horizon_of
from asyncsearch.work import Stage, Work

NAMED = 6
"""So many of the trials of an interval are known by name; the others are counted."""


class Kind(enum.Enum):
    """What became of an interval."""

    TRAINED = "trained, for one trial"
    SHARED = "trained once, for several trials"
    ELSEWHERE = "trained by another study"
    RUNNING = "running"
    WAITING = "waiting"


class TrialPath(msgspec.Struct):
    """A trial on its way through the tree."""

    trial: TrialId
    params: Params
    path: tuple[PathStep, ...]
    end: int
    """Resource that it wants to reach; once it is finished, what it has reached."""
    state: TrialState = TrialState.WAITING
    reached: int = 0
    value: float | None = None
    """The last finite value of the metric up to where it stands."""


class Interval(msgspec.Struct, frozen=True):
    """Part of a node in which nothing changes: who reads it, and what became of it."""

    start: int
    stop: int
    kind: Kind
    count: int
    """How many trials read it."""
    named: tuple[TrialId, ...]
    """The first ``NAMED`` of them."""


class TreeNode(msgspec.Struct):
    """A node of the plan: an interval in which no hyper-parameter changes its formula."""

    start: int
    params: Params
    """Of the first trial that came."""
    parent: NodeKey | None
    children: list[NodeKey] = []
    done: int = 0
    """Resource up to which it has been trained, by whomever."""
    elsewhere: list[tuple[int, int]] = []
    """The parts of that which only other studies have trained, ascending."""
    values: list[tuple[int, float]] = []
    ends: list[TrialPath] = []
    """The trials that end in it."""
    left: list[tuple[int, TrialId]] = []
    """Where trials left it, to go on with the weights of others."""
    intervals: list[Interval] = []
    """From its start to its end, without gaps."""


class TreeView(msgspec.Struct, frozen=True):
    """All nodes, and what all of it adds up to."""

    nodes: dict[NodeKey, TreeNode]
    """A parent stands before its children."""
    roots: list[NodeKey]
    ways: list[TrialPath]
    asked: int
    """Units that the trials would train, had each trained alone."""
    trained: int
    """Units that were trained here, repetitions after losses included."""
    elsewhere: int
    """Units that were not, since another study had trained them."""
    served: int
    """Units that trials have behind them, all trials added up."""
    horizon: int
    """Where the tree ends, from 1."""


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
        self._imported: dict[NodeKey, Imported] = {}
        """What was taken over in nodes that no trial has entered yet."""
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
                node.elsewhere = list(_without(node.elsewhere, max(node.start, run.at), min(stop, resource)))
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
            if isinstance(event, Imported):
                self._imported[event.node] = event
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
        stops = [(horizon_of(stage.stop), stage.node) for stage in stages]
        self._running[work.lease.number] = _Running(work.lease, stops, stages[0].start, UNBOUNDED)
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
        end = horizon_of(action.target)
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
                if step.node in self._imported:
                    self._learn(self._imported.pop(step.node))
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
        known = [way.end for way in ways if way.end < UNBOUNDED] + here
        horizon = max([*known, 1])
        if any(way.end == UNBOUNDED for way in ways):
            horizon += max(1, horizon // 10)
        asked = sum(way.reached if way.end == UNBOUNDED else way.end for way in ways)
        exits: dict[NodeKey, list[tuple[int, TrialId]]] = {key: [] for key in self._nodes}
        for way in ways:
            way.end = min(way.end, horizon)
            self._leave(way, exits)
        for key, node in self._nodes.items():
            _forget_beyond(node, max([stop for stop, _ in exits[key]], default=node.start))
        busy = self._busy(horizon)
        for key, node in self._nodes.items():
            node.intervals = list(_intervals(node, exits[key], busy.get(key, [])))
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


def _without(parts: list[tuple[int, int]], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield ascending intervals without what lies in another one."""
    for low, high in parts:
        if low < min(high, start):
            yield low, min(high, start)
        if max(low, stop) < high:
            yield max(low, stop), high


def _forget_beyond(node: TreeNode, stop: int) -> None:
    """Leave out what other studies have trained further than anybody wants it here."""
    kept = list(_without(node.elsewhere, stop, UNBOUNDED))
    if kept != node.elsewhere:
        node.done = min(node.done, max(stop, node.elsewhere[0][0]))
        node.elsewhere = kept


def _intervals(node: TreeNode, exits: list[tuple[int, TrialId]], busy: list[tuple[int, int]]) -> Iterator[Interval]:
    cuts = {stop for stop, _ in exits} | {node.start, node.done}
    cuts |= {cut for interval in [*busy, *node.elsewhere] for cut in interval}
    ordered = sorted(cut for cut in cuts if cut >= node.start)
    leaving = sorted(exits)
    found: list[Interval] = []
    named: list[TrialId] = []
    count = 0
    # From the end to the start, so that each trial is counted once.
    for start, stop in zip(reversed(ordered[:-1]), reversed(ordered[1:]), strict=True):
        while leaving and leaving[-1][0] >= stop:
            insort(named, leaving.pop()[1])
            del named[NAMED:]
            count += 1
        if any(low <= start and stop <= high for low, high in busy):
            kind = Kind.RUNNING
        elif any(low <= start and stop <= high for low, high in node.elsewhere):
            kind = Kind.ELSEWHERE
        elif stop <= node.done:
            kind = Kind.SHARED if count > 1 else Kind.TRAINED
        else:
            kind = Kind.WAITING
        found.append(Interval(start, stop, kind, count, tuple(named)))
    return reversed(found)
