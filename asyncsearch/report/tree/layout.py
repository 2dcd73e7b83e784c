"""The lane of each node of a stage tree: one lane for each leaf, and no line crosses another one.

Children that part early lie outside and children that part late lie inside, so the line to a child crosses no other.
Rule: a tree may be 10^5 deep, so no function here is recursive.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from asyncsearch.ids import NodeKey
from asyncsearch.report.tree.view import TreeNode, TreeView


class Layout:
    """Lanes of the nodes of a tree, counted from 0 at the top."""

    def __init__(self, tree: TreeView) -> None:
        self._nodes = tree.nodes
        self.sizes = self._leaves()
        """How many lanes each node takes together with its descendants."""
        self.at: dict[NodeKey, float] = {}
        """The lane of each node: its own, that of the child that parts last, or between two such children."""
        self.size = 0
        """How many lanes there are."""
        self._place(tree.roots)

    def _leaves(self) -> dict[NodeKey, int]:
        """Return how many lanes each subtree takes."""
        sizes: dict[NodeKey, int] = {}
        for key in reversed(self._nodes):
            node = self._nodes[key]
            sizes[key] = sum(sizes[child] for child in node.children) + has_lane(node, self._nodes)
        return sizes

    def _place(self, roots: list[NodeKey]) -> None:
        inner: dict[NodeKey, list[NodeKey]] = {}  # of nodes without a lane: the children that part last, next to it
        work = [(key, False) for key in reversed(roots)]  # (node, whether to give it its own lane now)
        while work:
            key, is_due = work.pop()
            if is_due:
                self.at[key] = float(self.size)
                self.size += 1
                continue
            node = self._nodes[key]
            above, below = self._sides(node)
            if not has_lane(node, self._nodes):
                latest = max(self._nodes[child].start for child in node.children)
                nearest = [*above[-1:], *below[:1]]
                inner[key] = [child for child in nearest if self._nodes[child].start == latest]
            own = [] if key in inner else [(key, True)]
            work.extend(reversed([*((child, False) for child in above), *own, *((child, False) for child in below)]))
        for key in reversed(self._nodes):
            if key in inner:
                self.at[key] = sum(self.at[child] for child in inner[key]) / len(inner[key])

    def _sides(self, node: TreeNode) -> tuple[list[NodeKey], list[NodeKey]]:
        """Return the children above, from outside to inside, and those below, from inside to outside."""
        above: list[NodeKey] = []
        below: list[NodeKey] = []
        weight = 0  # lanes above less lanes below
        for group in self._by_start(node):
            half = self._half(group, weight)
            above += group[:half]
            below[:0] = group[half:]
            weight += sum(self.sizes[key] for key in group[:half]) - sum(self.sizes[key] for key in group[half:])
        return above, below

    def _half(self, group: list[NodeKey], weight: int) -> int:
        """Return how many of the children that part together go above, so that both sides become nearly equal."""
        total = sum(self.sizes[key] for key in group)
        best, half, above = abs(weight - total), 0, 0
        for number, key in enumerate(group, 1):
            above += self.sizes[key]
            if abs(weight + 2 * above - total) < best:
                best, half = abs(weight + 2 * above - total), number
        return half

    def _by_start(self, node: TreeNode) -> Iterator[list[NodeKey]]:
        def start(key: NodeKey) -> int:
            return self._nodes[key].start

        for _, group in groupby(sorted(node.children, key=start), key=start):
            yield list(group)


def has_lane(node: TreeNode, nodes: dict[NodeKey, TreeNode]) -> bool:
    """Return whether a node continues after its last child has parted, or has no child."""
    return node.intervals[-1].stop > max((nodes[child].start for child in node.children), default=-1)
