"""What is known of each node: the metric as reported there, so that a trial that comes later reads it. Pure."""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterator, Sequence

import msgspec

from asyncsearch.ids import NodeKey, PathStep


class NodeReports(msgspec.Struct):
    """What was reported in one node."""

    resources: list[int]
    """Strictly ascending."""
    values: list[float | None]
    """The metric in the user's own sign, one for each resource; None: not finite, or not among what was reported."""
    ended: int | None = None
    """Resource at which the user's function returned by itself; None: it did not."""


class Known:
    """Reports by node: about 250 bytes a node and 40 a report, until nobody can come who would read them."""

    def __init__(self) -> None:
        self.nodes: dict[NodeKey, NodeReports] = {}

    def report(self, node: NodeKey, resource: int, value: float | None) -> None:
        """The metric was reported; one that is known already stays as it was."""
        reports = self.nodes.get(node)
        if reports is None:
            self.nodes[node] = NodeReports([resource], [value])
            return
        if not reports.resources or resource > reports.resources[-1]:
            reports.resources.append(resource)
            reports.values.append(value)
            return
        at = bisect.bisect_left(reports.resources, resource)
        if reports.resources[at] != resource:
            reports.resources.insert(at, resource)
            reports.values.insert(at, value)

    def keep(self, nodes: Collection[NodeKey]) -> None:
        """Forget what is known of all other nodes."""
        self.nodes = {node: known for node, known in self.nodes.items() if node in nodes}

    def has(self, node: NodeKey, resource: int) -> bool:
        """Return whether a report of the metric at that resource is known."""
        found = self.nodes.get(node)
        if found is None:
            return False
        at = bisect.bisect_left(found.resources, resource)
        return at < len(found.resources) and found.resources[at] == resource

    def has_end(self, node: NodeKey) -> bool:
        """Return whether it is known that the user's function returned by itself in a node."""
        found = self.nodes.get(node)
        return found is not None and found.ended is not None

    def end(self, node: NodeKey, resource: int) -> None:
        """The user's function returned by itself: nothing comes after this resource."""
        self.nodes.setdefault(node, NodeReports([], [])).ended = resource

    def ended(self, steps: Sequence[PathStep]) -> int | None:
        """Return where the user's function returned by itself on this way; None: nowhere that is known."""
        for number, step in enumerate(steps):
            found = self.nodes.get(step.node)
            ended = None if found is None else found.ended
            # A node may have been trained beyond where this way leaves it.
            if ended is not None and (number + 1 == len(steps) or ended <= steps[number + 1].start):
                return ended
        return None

    def between(self, steps: Sequence[PathStep], after: int, upto: int) -> Iterator[tuple[int, float | None]]:
        """Yield what was reported on a way at resources above ``after`` and not above ``upto``, in order."""
        for number, step in enumerate(steps):
            end = steps[number + 1].start if number + 1 < len(steps) else upto
            found = self.nodes.get(step.node)
            if found is None or end <= after:
                continue
            low = bisect.bisect_right(found.resources, max(after, step.start))
            high = bisect.bisect_right(found.resources, min(end, upto))
            yield from zip(found.resources[low:high], found.values[low:high], strict=True)
