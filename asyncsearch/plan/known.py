"""What is known of each node: the metric as reported there, so that a trial that comes later reads it. Pure."""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from asyncsearch.ids import NodeKey, PathStep


class NodeReports:
    """What was reported in one node: 8 bytes a report that is finite, while none is missing between two others."""

    __slots__ = ("ended", "first", "scattered", "values")

    def __init__(self, first: int) -> None:
        """Know of no report; ``first`` is where the first one is expected."""
        self.first = first
        """Resource of the first report, while all follow one another."""
        self.scattered: array[int] | None = None
        """Resources of all reports, strictly ascending; None: they follow one another."""
        self.values: array[float] | list[float | None] = array("d")
        """The metric in the user's own sign, one for each resource; None: not finite, or not among what was reported.

        Only where one of them is None it is a list.
        """
        self.ended: int | None = None
        """Resource at which the user's function returned by itself; None: it did not."""

    @property
    def resources(self) -> Sequence[int]:
        """Where there are reports, strictly ascending."""
        return range(self.first, self.first + len(self.values)) if self.scattered is None else self.scattered

    def add(self, resource: int, value: float | None) -> None:
        """Know one more report; one that is known already stays as it was."""
        resources, count = self.resources, len(self.values)
        at = bisect.bisect_left(resources, resource)
        if at < count and resources[at] == resource:
            return
        if not count:
            self.first = resource
        elif self.scattered is not None or resource != self.first + count:
            self.scattered = array("q", resources) if self.scattered is None else self.scattered
            self.scattered.insert(at, resource)
        if value is None and isinstance(self.values, array):
            self.values = list(self.values)
        self.values.insert(at, value)  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"resources": list(self.resources), "values": list(self.values), "ended": self.ended}

    @classmethod
    def from_json(cls, resources: list[int], values: list[float | None], ended: int | None = None) -> NodeReports:
        """Return what ``to_json`` was asked of.

        Raises:
            TypeError, ValueError: it is nothing of the kind.
        """
        found = cls(0)
        for resource, value in zip(resources, values, strict=True):
            found.add(resource, value)
        found.ended = ended
        return found


class Known:
    """Reports by node: about 250 bytes a node and 8 a report, until nobody can come who would read them."""

    def __init__(self) -> None:
        self.nodes: dict[NodeKey, NodeReports] = {}

    def report(self, node: NodeKey, resource: int, value: float | None) -> None:
        """The metric was reported; one that is known already stays as it was."""
        found = self.nodes.get(node)
        if found is None:
            found = self.nodes[node] = NodeReports(resource)
        if value is not None and found.scattered is None and resource == found.first + len(found.values):
            found.values.append(value)  # as nearly every report does
        else:
            found.add(resource, value)

    def keep(self, nodes: Collection[NodeKey]) -> None:
        """Forget what is known of all other nodes."""
        self.nodes = {node: known for node, known in self.nodes.items() if node in nodes}

    def has(self, node: NodeKey, resource: int) -> bool:
        """Return whether a report of the metric at that resource is known."""
        found = self.nodes.get(node)
        if found is None:
            return False
        if found.scattered is None:
            return 0 <= resource - found.first < len(found.values)
        at = bisect.bisect_left(found.scattered, resource)
        return at < len(found.scattered) and found.scattered[at] == resource

    def has_end(self, node: NodeKey) -> bool:
        """Return whether it is known that the user's function returned by itself in a node."""
        found = self.nodes.get(node)
        return found is not None and found.ended is not None

    def end(self, node: NodeKey, resource: int) -> None:
        """The user's function returned by itself: nothing comes after this resource."""
        self.nodes.setdefault(node, NodeReports(resource)).ended = resource

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
            low, high = max(after, step.start), min(end, upto)
            if found.scattered is None:
                begin = max(0, low + 1 - found.first)
                yield from enumerate(found.values[begin : max(0, high + 1 - found.first)], found.first + begin)
            else:
                places = slice(bisect.bisect_right(found.scattered, low), bisect.bisect_right(found.scattered, high))
                yield from zip(found.scattered[places], found.values[places], strict=True)
