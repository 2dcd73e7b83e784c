"""The stage tree: the training left to do, updated incrementally.

It always equals the tree that Hippo's Algorithm 1 would generate from scratch; a test compares the two.
Its vertices are points of plan nodes. A point is *durable* when its checkpoint is, *running* when a worker trains to or
past it, else *pending*: then it ends a stage, which begins at its host, the highest point below it. The host of a
node's first point is the point of its parent at which the node begins; for a root it is the beginning of training.

Rule 1: the state of a point follows only from saved checkpoints and running work.
Rule 2: a point exists while it is needed: a trial requests it, a stage of another node starts there, or, unless it is
pending, any stage starts there. A node exists while it has points, children or running work.
Rule 3: a change is propagated from a point to its host and stops at the first point that it does not alter.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence

from asyncsearch.errors import InternalError
from asyncsearch.ids import CheckpointRef, NodeKey, TrialId
from asyncsearch.plan.costs import DEFAULT_COST, Costs, KnownCosts
from asyncsearch.plan.nodes import PlanNode, Point, PointState, Span
from asyncsearch.plan.ready_points import Evaluations, ReadyPoints

ORIGIN = NodeKey("")
"""The parent of all roots: its one point, at 0, means training from the beginning and is always durable."""


class StageTree:
    """Points, the stages between them, and their order."""

    def __init__(self) -> None:
        self.saved: dict[NodeKey, list[int]] = {ORIGIN: [0]}
        """Resources at which there are durable checkpoints, by node, in order."""
        self.blocked: set[NodeKey] = set()
        """Nodes that another study trains: all of their points that are not durable count as running."""
        self.ready = ReadyPoints()
        self.evaluations = Evaluations()
        self._origin = PlanNode(ORIGIN, 0, None, DEFAULT_COST)
        self.nodes: dict[NodeKey, PlanNode] = {ORIGIN: self._origin}
        """Parents before their children."""
        self._insert(self._origin, 0).trials.append(TrialId(-1))  # never removed: training can always begin again
        self._costs = Costs(self._origin)

    def enter(self, path: Iterable[tuple[int, NodeKey]]) -> PlanNode:
        """Return the last node of a path and create missing nodes; a trial must request one of its points."""
        node = self._origin
        for start, key in path:
            known = self.nodes.get(key)
            if known is None:
                known = self.nodes[key] = PlanNode(key, start, node, self._costs.of(key, node))
                if node.children is None:
                    node.children = {}
                node.children[key] = known
            elif known.parent is not node or known.start != start:
                raise InternalError(
                    f"node {key} begins at {known.start} in the plan and at {start} in a path, or under another parent."
                )
            node = known
        return node

    def find(self, ref: CheckpointRef) -> Point | None:
        """Return the point at a position, if there is one."""
        node = self.nodes.get(ref.node)
        return None if node is None else node.at(ref.resource)

    def add_request(self, node: PlanNode, resource: int, trial: TrialId, is_urgent: bool) -> None:
        """Add a trial's request for a point that it does not request yet."""
        point = node.at(resource)
        is_new = point is None
        if point is None:
            point = self._insert(node, resource)
        insort(point.trials, trial)
        point.urgent_trials += is_urgent
        if is_new and point.state is PointState.PENDING:
            self._link(point)
        else:
            self._update(point)

    def remove_request(self, node: PlanNode, resource: int, trial: TrialId, is_urgent: bool) -> None:
        """Remove a trial's request for a point."""
        point = node.at(resource)
        assert point is not None
        del point.trials[bisect_left(point.trials, trial)]
        point.urgent_trials -= is_urgent
        self._settle(point)

    def save(self, ref: CheckpointRef) -> bool:
        """Count a checkpoint as durable; return False if it was durable already."""
        resources = self.saved.setdefault(ref.node, [])
        index = bisect_left(resources, ref.resource)
        if index < len(resources) and resources[index] == ref.resource:
            return False
        resources.insert(index, ref.resource)
        node = self.nodes.get(ref.node)
        if node is not None:
            point = node.at(ref.resource)
            if point is not None:
                self._reconsider(point)
            else:
                self._rehost_above(node, ref.resource)
        return True

    def lose(self, ref: CheckpointRef) -> None:
        """Stop counting a checkpoint as durable."""
        resources = self.saved.get(ref.node, [])
        index = bisect_left(resources, ref.resource)
        if index == len(resources) or resources[index] != ref.resource:
            return
        del resources[index]
        if not resources:
            del self.saved[ref.node]
        self.evaluations.unmeasured.discard(ref)
        point = self.find(ref)
        if point is not None:
            self._reconsider(point)
        elif ref.node not in self.nodes:
            self._costs.forget(ref.node)

    def nearest(self, path: Sequence[tuple[int, NodeKey]], resource: int) -> CheckpointRef | None:
        """Return the deepest durable checkpoint on a path at or before ``resource``."""
        end = resource
        for start, key in reversed(path):
            if start < resource:
                saved = self.saved.get(key, ())
                index = bisect_right(saved, end)
                if index:
                    return CheckpointRef(key, saved[index - 1])
            end = min(resource, start)  # further checkpoints of the parent are not on this path
        return None

    def start(self, span: Span) -> None:
        """Let a lease train a part of a node."""
        span.node.spans.append(span)
        for point in span.node.points_in(span.position, span.stop):
            self._reconsider(point)
        # In a restored plan no trial may request the end of running work, although others continue from there.
        self._rehost_above(span.node, span.stop)

    def lengthen(self, span: Span, stop: int) -> None:
        """Let a lease train further in the node in which it ends."""
        former, span.stop = span.stop, stop
        if span not in span.node.spans:  # all of it was saved
            span.node.spans.append(span)
        for point in span.node.points_in(former, stop):
            self._reconsider(point)
        if (end := span.node.at(former)) is not None:
            self._reconsider(end)
        self._rehost_above(span.node, stop)

    def is_taken(self, key: NodeKey, low: int, high: int) -> bool:
        """Return whether units of a node beyond ``low`` up to ``high`` are saved, or others train there."""
        node = self.nodes.get(key)
        is_run = node is not None and any(low < span.stop and span.begin < high for span in node.spans)
        return key in self.blocked or is_run or any(low < at <= high for at in self.saved.get(key, ()))

    def shorten(self, span: Span, stop: int) -> None:
        """Let a lease train no further than ``stop``; if that is not above ``position``, none of it runs any more."""
        former, span.stop = span.stop, max(stop, span.position)
        if span.stop == span.position:
            span.finish()
        for point in reversed(span.node.points_in(span.stop, former)):
            self._reconsider(point)
        self._drop(span.node)

    def advance(self, span: Span, resource: int) -> None:
        """Count a part up to ``resource`` as done: points that it passed without saving become pending again."""
        former, span.position = span.position, min(resource, span.stop)
        if span.stop == span.position:
            span.finish()
        for point in reversed(span.node.points_in(former, span.position)):
            self._reconsider(point)
        self._drop(span.node)

    def block(self, key: NodeKey) -> None:
        """Note that another study trains in a node."""
        self.blocked.add(key)
        self._reconsider_all(key)

    def unblock(self, key: NodeKey) -> None:
        """Note that no other study trains in a node any more."""
        self.blocked.discard(key)
        self._reconsider_all(key)

    def _reconsider_all(self, key: NodeKey) -> None:
        node = self.nodes.get(key)
        for point in reversed([] if node is None else list(node.points)):
            self._reconsider(point)
            if point.state is PointState.DURABLE and point.node.at(point.resource) is point:
                self._settle(point)

    def reweigh(self, ref: CheckpointRef) -> None:
        """Update the evaluation of a position after a change."""
        point = self.find(ref)
        if point is not None:
            self._settle(point)

    def measure(self, key: NodeKey, seconds: float) -> None:
        """Set the measured cost of a unit of a node."""
        node = self.nodes.get(key)
        self._costs.measure(key, seconds, node, is_kept=node is not None or key in self.saved)
        for changed in self._costs.changed(self.nodes):
            self._price(changed)

    def costs(self) -> KnownCosts:
        """Return all known costs, and the nodes in the order of their creation."""
        return self._costs.snapshot(self.nodes)

    def restore_costs(self, known: KnownCosts) -> None:
        """Restore the costs known before this tree was made, and the order of its nodes."""
        self._costs.restore(known, self.nodes)
        former = {key: self.nodes[key] for key, _ in known.nodes if key in self.nodes}
        self.nodes = former | self.nodes
        for node in self.nodes.values():
            node.children = None
        for key, node in self.nodes.items():
            if node.parent is not None:
                if node.parent.children is None:
                    node.parent.children = {}
                node.parent.children[key] = node
            self._price(node)

    def _price(self, node: PlanNode) -> None:
        for point in reversed(node.points):
            if point.state is PointState.PENDING:
                point.price()
                self._update(point)

    def _state(self, node: PlanNode, resource: int) -> PointState:
        saved = self.saved.get(node.key, ())
        index = bisect_left(saved, resource)
        if index < len(saved) and saved[index] == resource:
            return PointState.DURABLE
        if node.key in self.blocked or any(span.position < resource <= span.stop for span in node.spans):
            return PointState.RUNNING
        return PointState.PENDING

    def _before(self, node: PlanNode, resource: int) -> tuple[Point, bool]:
        """Return the point from which ``resource`` is trained, and whether it was created for this."""
        below = -1
        for known in (node.resources, self.saved.get(node.key, ())):
            index = bisect_left(known, resource)
            if index:
                below = max(below, known[index - 1])
        below = max((s.stop for s in node.spans if below < s.stop < resource and s.begin < s.stop), default=below)
        if below < 0:
            assert node.parent is not None
            below, node = node.start, node.parent
        point = node.at(below)
        return (self._insert(node, below), True) if point is None else (point, False)

    def _insert(self, node: PlanNode, resource: int) -> Point:
        """Create a point without a host; if it is pending, it becomes the host of the stage that it now precedes."""
        point = Point(node, resource, self._state(node, resource))
        index = bisect_left(node.resources, resource)
        node.resources.insert(index, resource)
        node.points.insert(index, point)
        if point.state is PointState.PENDING and index + 1 < len(node.points):
            follower = node.points[index + 1]
            if follower.host is not None:
                follower.detach()
                follower.attach(point)
        return point

    def _rehost_above(self, node: PlanNode, resource: int) -> None:
        """Let the stage that passes a new checkpoint begin there."""
        index = bisect_left(node.resources, resource)
        follower = node.points[index] if index < len(node.points) else None
        if follower is None or follower.state is not PointState.PENDING:
            return
        host = follower.detach()
        self._link(follower)
        self._settle(host)

    def _link(self, point: Point) -> None:
        """Attach a pending point to its host, and create the missing points below it."""
        while True:
            host, is_new = self._before(point.node, point.resource)
            point.attach(host)
            if not is_new or host.state is not PointState.PENDING:
                self._update(host)
                return
            point = host

    def _update(self, point: Point) -> None:
        """Propagate a change of the trials, the length or the stages of a point."""
        while point.state is PointState.PENDING and point.host is not None:
            if not point.refresh():
                return
            point = point.host
        if point.state is PointState.DURABLE:
            self._evaluate(point)
            self.ready.offer(point)

    def _evaluate(self, point: Point) -> None:
        if self.evaluations.is_any:
            self.evaluations.settle(point, is_blocked=point.node.key in self.blocked)

    def _settle(self, point: Point) -> None:
        """Remove a point that is not needed any more, then its host if that is not needed either, and so on."""
        self._evaluate(point)
        while not point.is_needed():
            host = point.detach() if point.host is not None else None
            follower = self._remove(point)
            if follower is not None:
                self._link(follower)
            if host is None:
                return
            point = host
            self._evaluate(point)
        self._update(point)

    def _remove(self, point: Point) -> Point | None:
        """Remove a point; return the stage of its own node that began there, which needs another host."""
        node = point.node
        index = bisect_left(node.resources, point.resource)
        del node.resources[index], node.points[index]
        follower = node.points[index] if index < len(node.points) else None
        if follower is not None and follower.host is point:
            follower.detach()
        else:
            follower = None
        if point.state is PointState.DURABLE:
            self.ready.withdraw(point)
        self._drop(node)
        return follower

    def _reconsider(self, point: Point) -> None:
        """Update the state of a point."""
        state = self._state(point.node, point.resource)
        if state is point.state:
            return
        host = point.detach() if point.host is not None else None
        if point.state is PointState.DURABLE:
            self.ready.withdraw(point)
        point.state = state
        self._evaluate(point)
        if state is PointState.PENDING and point.is_needed():
            self._link(point)
        else:
            self._settle(point)
        if host is not None:
            self._settle(host)

    def _drop(self, node: PlanNode) -> None:
        """Forget a node without work left in it or below it."""
        while node.parent is not None and not (node.points or node.spans or node.children):
            if self.nodes.get(node.key) is not node:
                return
            del self.nodes[node.key]
            if node.key not in self.saved:
                self._costs.forget(node.key)
            assert node.parent.children is not None
            del node.parent.children[node.key]
            if not node.parent.children:
                node.parent.children = None
            node = node.parent
