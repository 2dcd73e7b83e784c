"""The stage tree of a study as its journal tells it: who wants which interval of which node, and what became of it.

Rule: paths and trees may be 10^5 deep, so nothing here calls itself.
"""

from __future__ import annotations

import enum
from bisect import insort
from collections.abc import Iterable, Iterator

import msgspec

from asyncsearch.actions import AnyAction, Assign, Branch, CreateTrial, MoveTrial, Promote
from asyncsearch.events import Imported, Learned, LeaseEvent
from asyncsearch.ids import NodeKey, PathStep, TrialId
from asyncsearch.journal.format import Record
from asyncsearch.journal.projection import LeaseProgress, Projection
from asyncsearch.nonfinite import finite
from asyncsearch.trial import UNBOUNDED, Params, TrialState, horizon_of
from asyncsearch.work import Stage

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


class TreeReader:
    """Follows a journal."""

    def __init__(self, metric: str) -> None:
        self._metric = metric
        self._nodes: dict[NodeKey, TreeNode] = {}
        self._ways: dict[TrialId, TrialPath] = {}
        self._imported: dict[NodeKey, Imported] = {}
        """What was taken over in nodes that no trial has entered yet."""
        self._projection = Projection()

    def add(self, record: Record) -> None:
        """Take a record in."""
        event = record.event
        progress = self._projection.leases.get(event.lease.number) if isinstance(event, LeaseEvent) else None
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
            node, stop = self._nodes.get(stage.node), _stop(stage)
            if node is not None and node.start < progress.resource and before <= stop:
                node.elsewhere = list(_without(node.elsewhere, max(node.start, before), min(stop, progress.resource)))
                node.done = max(node.done, min(stop, progress.resource))
            if stop >= progress.resource:
                break

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
                self._assign(action.work.lanes[0].stages)
            case _:
                pass

    def _assign(self, stages: Iterable[Stage]) -> None:
        for stage in stages:
            for trial in self._ways if stage.more else stage.trials:
                way = self._ways[trial]
                if way.end <= _stop(stage) and way.state is TrialState.WAITING and self._projection.reads(trial, stage):
                    way.state = TrialState.RUNNING

    def _create(self, action: CreateTrial) -> None:
        end = horizon_of(action.target)
        path = self._projection.paths[action.trial]
        way = self._ways[action.trial] = TrialPath(action.trial, action.params, path, end)
        self._grow(way)

    def _branch(self, action: Branch) -> None:
        way = self._ways[action.trial]
        here = next(step.node for step in reversed(way.path) if step.start < way.end)
        self._nodes[here].left.append((way.end, way.trial))
        way.state, way.end, way.params = TrialState.WAITING, action.to_resource, action.params
        way.path = self._projection.paths[action.trial]
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
        for key, node in self._nodes.items():
            found = ((at, finite(metrics.get(self._metric))) for at, metrics in self._projection.reports(key))
            node.values = [(at, value) for at, value in found if value is not None]
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
        return TreeView(
            nodes, roots, ways, asked, self._projection.trained, elsewhere, sum(way.reached for way in ways), horizon
        )

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
        for progress in self._projection.leases.values():
            at = progress.resource
            for stage in progress.stages:
                end = min(_stop(stage), horizon, progress.wanted)
                if at < end:
                    busy.setdefault(stage.node, []).append((at, end))
                at = max(at, _stop(stage))
        return busy


def read_tree(records: Iterable[Record], metric: str) -> TreeView:
    """Return the stage tree that a whole journal tells."""
    reader = TreeReader(metric)
    for record in records:
        reader.add(record)
    return reader.tree()


def _stop(stage: Stage) -> int:
    return horizon_of(stage.stop)


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
