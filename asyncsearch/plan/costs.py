"""The cost of a unit of each node: as measured, else that of its parent, else the mean.

Only how costs compare decides anything, so they count in what was measured first: until something differs from that,
nothing has to be handed on. A measure that hardly differs changes nothing, so that noise does not move stages
about. What inherits a cost that did change follows a few nodes at a time, nearest first, so that no measure takes time
in the size of the plan.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

import msgspec

from asyncsearch.ids import NodeKey
from asyncsearch.plan.nodes import PlanNode

DEFAULT_COST = 1_000_000
"""What a unit costs that was measured first, and while nothing was measured."""

_MOST = 10**12
_LEAST_S = 1e-6
_AT_ONCE = 8
_TOLERANCE = 8


class KnownCosts(msgspec.Struct, frozen=True):
    """All that is known of costs, so that a plan made anew hands them on as the former one would have."""

    first_s: float | None
    """Seconds that a unit took that was measured first; None: nothing was measured."""
    nodes: list[tuple[NodeKey, int]]
    """The cost of a unit of each node, the parent of all roots first, in the order in which they came."""
    measured: dict[NodeKey, int]
    total: int
    """Sum of all that was measured, of nodes that are gone too."""
    count: int
    waiting: list[NodeKey]
    """The nodes to which a cost is still to be handed on, in order."""


class Costs:
    """Measured costs of a unit, and the nodes to which they are still to be handed on."""

    def __init__(self, origin: PlanNode) -> None:
        self._origin = origin
        """The parent of all roots, which therefore takes the mean."""
        self._first_s: float | None = None
        self._measured: dict[NodeKey, int] = {}
        self._sum = 0
        self._count = 0
        self._waiting: deque[PlanNode] = deque()

    def of(self, key: NodeKey, parent: PlanNode) -> int:
        """Return what a unit of a node takes."""
        return self._measured.get(key, parent.cost)

    def measure(self, key: NodeKey, seconds: float, node: PlanNode | None, *, is_kept: bool) -> None:
        """Take a measure into the mean and, if it is kept, as that of the node, which need not be in the tree."""
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
        """Forget what was measured of a node; the mean remembers it."""
        self._measured.pop(key, None)

    def snapshot(self, nodes: Mapping[NodeKey, PlanNode]) -> KnownCosts:
        """Return all that is known."""
        costs = [(key, node.cost) for key, node in nodes.items()]
        waiting = [node.key for node in self._waiting if nodes.get(node.key) is node]
        return KnownCosts(self._first_s, costs, self._measured, self._sum, self._count, waiting)

    def restore(self, known: KnownCosts, nodes: Mapping[NodeKey, PlanNode]) -> None:
        """Become what was known, of those nodes that there are."""
        self._first_s = known.first_s
        self._measured, self._sum, self._count = known.measured, known.total, known.count
        self._waiting = deque(nodes[key] for key in known.waiting if key in nodes)
        for key, cost in known.nodes:
            if key in nodes:
                nodes[key].cost = cost

    def changed(self, nodes: Mapping[NodeKey, PlanNode]) -> Iterator[PlanNode]:
        """Hand costs on to the next few of the nodes; return those that take another time now."""
        left = _AT_ONCE
        while left and self._waiting:
            node = self._waiting.popleft()
            # Those that are gone do not count: a plan made anew does not know that they were waiting.
            if node.parent is None or nodes.get(node.key) is not node:
                continue
            left -= 1
            cost = self.of(node.key, node.parent)
            if _differ(cost, node.cost):
                node.cost = cost
                self._waiting.extend((node.children or {}).values())
                yield node


def _differ(cost: int, other: int) -> bool:
    """Return whether costs differ by so much that stages are worth another place."""
    return abs(cost - other) * _TOLERANCE > other
