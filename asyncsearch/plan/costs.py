"""The cost of a unit of each node: its measured cost, else its parent's, else the mean.

Decisions depend only on how costs compare, so the first measured cost is the unit: until another measure differs from
it, no cost has to be propagated. A measure that hardly differs changes nothing, so that noise does not reorder
stages. A changed cost is propagated to a few inheriting nodes at a time, nearest first, so that the time of a measure
does not grow with the size of the plan.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

import msgspec

from asyncsearch.ids import NodeKey
from asyncsearch.plan.nodes import PlanNode

DEFAULT_COST = 1_000_000
"""Cost of the first measured unit, and of every unit before the first measure."""

_MOST = 10**12
_LEAST_S = 1e-6
_AT_ONCE = 8
_TOLERANCE = 8


class KnownCosts(msgspec.Struct, frozen=True):
    """All known costs, so that a restored plan propagates them as the original would have."""

    first_s: float | None
    """Seconds of the first measured unit. None if nothing was measured."""
    nodes: list[tuple[NodeKey, int]]
    """The cost of a unit of each node, the parent of all roots first, in the order of the nodes' creation."""
    measured: dict[NodeKey, int]
    total: int
    """Sum of all measures, also of nodes that are gone."""
    count: int
    waiting: list[NodeKey]
    """The nodes to which a cost is still to be propagated, in order."""


class Costs:
    """Measured costs of a unit, and the nodes to which they are still to be propagated."""

    def __init__(self, origin: PlanNode) -> None:
        self._origin = origin
        """The parent of all roots, which therefore has the mean cost."""
        self._first_s: float | None = None
        self._measured: dict[NodeKey, int] = {}
        self._sum = 0
        self._count = 0
        self._waiting: deque[PlanNode] = deque()

    def of(self, key: NodeKey, parent: PlanNode) -> int:
        """Return the cost of a unit of a node."""
        return self._measured.get(key, parent.cost)

    def measure(self, key: NodeKey, seconds: float, node: PlanNode | None, *, is_kept: bool) -> None:
        """Add a measure to the mean and, if it is kept, set it as the node's, which need not be in the tree."""
        if self._first_s is None:
            self._first_s = max(seconds, _LEAST_S)
        cost = min(max(1, round(seconds / self._first_s * DEFAULT_COST)), _MOST)
        former = self._measured.get(key)
        self._count += former is None
        self._sum += cost - (former or 0)
        mean = max(1, self._sum // self._count)
        if _differ(mean, self._origin.cost):
            self._origin.cost = mean
            self._waiting.extend((self._origin.children or {}).values())
        if is_kept:
            self._measured[key] = cost
        if node is not None:
            self._waiting.append(node)

    def forget(self, key: NodeKey) -> None:
        """Forget the measures of a node; the mean keeps them."""
        self._measured.pop(key, None)

    def snapshot(self, nodes: Mapping[NodeKey, PlanNode]) -> KnownCosts:
        """Return all known costs."""
        costs = [(key, node.cost) for key, node in nodes.items()]
        waiting = [node.key for node in self._waiting if nodes.get(node.key) is node]
        return KnownCosts(self._first_s, costs, self._measured, self._sum, self._count, waiting)

    def restore(self, known: KnownCosts, nodes: Mapping[NodeKey, PlanNode]) -> None:
        """Restore the known costs of the existing nodes."""
        self._first_s = known.first_s
        self._measured, self._sum, self._count = known.measured, known.total, known.count
        self._waiting = deque(nodes[key] for key in known.waiting if key in nodes)
        for key, cost in known.nodes:
            if key in nodes:
                nodes[key].cost = cost

    def changed(self, nodes: Mapping[NodeKey, PlanNode]) -> Iterator[PlanNode]:
        """Propagate costs to the next few nodes; yield the nodes whose cost changed."""
        left = _AT_ONCE
        while left and self._waiting:
            node = self._waiting.popleft()
            # Nodes that are gone do not count: a restored plan does not know that they were waiting.
            if node.parent is None or nodes.get(node.key) is not node:
                continue
            left -= 1
            cost = self.of(node.key, node.parent)
            if _differ(cost, node.cost):
                node.cost = cost
                self._waiting.extend((node.children or {}).values())
                yield node


def _differ(cost: int, other: int) -> bool:
    """Return whether costs differ enough to reorder stages."""
    return abs(cost - other) * _TOLERANCE > other
