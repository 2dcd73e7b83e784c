"""What is known of each node: the metric as reported there, so that a trial that comes later reads it. Pure."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

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
    """Reports by node."""

    def __init__(self) -> None:
        self.nodes: dict[NodeKey, NodeReports] = {}

    def report(self, node: NodeKey, resource: int, value: float | None) -> None:
        """The metric was reported; one that is known already stays as it was."""
        reports = self.nodes.setdefault(node, NodeReports([], []))
        if not reports.resources or resource > reports.resources[-1]:
            reports.resources.append(resource)
            reports.values.append(value)

    def end(self, node: NodeKey, resource: int) -> None:
        """The user's function returned by itself: nothing comes after this resource."""
        self.nodes.setdefault(node, NodeReports([], [])).ended = resource

    def ended(self, steps: Sequence[PathStep]) -> int | None:
        """Return where the user's function returned by itself on this way; None: nowhere that is known."""
        for number, step in enumerate(steps):
            found = self.nodes.get(step.node)
            ended = None if found is None else found.ended
            if ended is not None and (number + 1 == len(steps) or ended <= steps[number + 1].start):
                return ended
        return None

    def reach(self, steps: Sequence[PathStep]) -> int:
        """Return the highest resource of a way at which anything was reported, 0 if there is none."""
        for step in reversed(steps):
            found = self.nodes.get(step.node)
            if found is not None and found.resources:
                return found.resources[-1]
        return 0

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
