"""The reports of the metric in each node, so that later trials can read them. Pure."""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from asyncsearch.ids import NodeKey, PathStep

if TYPE_CHECKING:
    _Floats = array[float]
else:
    _Floats = array


class NodeReports(msgspec.Struct, gc=False):
    """The reports of one node, of any form."""

    resources: list[int]
    """Strictly ascending."""
    values: list[float | None]
    """The metric in the user's sign, one for each resource. None if not finite, or not reported."""
    ended: int | None = None
    """Resource at which the user's function returned by itself. None if it did not."""

    def add(self, resource: int, value: float | None) -> None:
        """Add a report; a known report is not changed."""
        at = len(self.resources)
        if self.resources and resource <= self.resources[-1]:
            at = bisect.bisect_left(self.resources, resource)
            if self.resources[at] == resource:
                return
        self.resources.insert(at, resource)
        self.values.insert(at, value)

    def row(self) -> ReportRow | None:
        """Return the same reports as a row. None if a row cannot hold them."""
        if not self.resources or self.ended is not None or None in self.values:
            return None
        is_whole = self.resources[-1] - self.resources[0] < len(self.resources)
        return row(self.resources[0], self.values) if is_whole else None  # type: ignore[arg-type]


class ReportRow(_Floats):
    """The reports of most nodes: finite values of the metric, at consecutive resources.

    It takes 8 bytes for each report; lists take 40.
    """

    __slots__ = ("first",)

    first: int
    """Resource of the first value."""

    def has(self, resource: int) -> bool:
        """Return whether there is a report at that resource."""
        return 0 <= resource - self.first < len(self)

    def reports(self) -> NodeReports:
        """Return the same reports as lists."""
        return NodeReports(list(range(self.first, self.first + len(self))), list(self))


def row(first: int, values: Iterable[float]) -> ReportRow:
    """Return a row of values, the first of which is at the resource ``first``."""
    made = ReportRow("d", values)
    made.first = first
    return made


class KnownReports:
    """Reports by node: about 200 bytes for each node and 8 for each report, until no later trial can read them."""

    def __init__(self) -> None:
        self.nodes: dict[NodeKey, ReportRow | NodeReports] = {}

    def restore(self, nodes: Mapping[NodeKey, NodeReports]) -> None:
        """Take over the reports of a snapshot."""
        self.nodes = {node: reports.row() or reports for node, reports in nodes.items()}

    def report(self, node: NodeKey, resource: int, value: float | None) -> None:
        """Add a report of the metric; a known report is not changed."""
        found = self.nodes.get(node)
        if found is None:
            self.nodes[node] = NodeReports([resource], [None]) if value is None else row(resource, (value,))
        elif isinstance(found, NodeReports):
            found.add(resource, value)
        elif value is not None and resource == found.first + len(found):
            found.append(value)
        elif not found.has(resource):
            self._in_lists(node).add(resource, value)

    def _in_lists(self, node: NodeKey) -> NodeReports:
        """Return the reports of a node, stored from now on as lists, which can hold any report."""
        found = self.nodes.get(node, NodeReports([], []))
        reports = self.nodes[node] = found.reports() if isinstance(found, ReportRow) else found
        return reports

    def settle(self, node: NodeKey) -> None:
        """Free the memory that a node's row reserves for further reports; they may come nevertheless."""
        found = self.nodes.get(node)
        if isinstance(found, ReportRow):
            self.nodes[node] = row(found.first, found)

    def keep(self, nodes: Collection[NodeKey]) -> None:
        """Forget the reports of all other nodes."""
        self.nodes = {node: known for node, known in self.nodes.items() if node in nodes}

    def has(self, node: NodeKey, resource: int) -> bool:
        """Return whether a report of the metric at that resource is known."""
        found = self.nodes.get(node)
        if found is None:
            return False
        if isinstance(found, ReportRow):
            return found.has(resource)
        at = bisect.bisect_left(found.resources, resource)
        return at < len(found.resources) and found.resources[at] == resource

    def has_end(self, node: NodeKey) -> bool:
        """Return whether the user's function is known to have returned by itself in a node."""
        found = self.nodes.get(node)
        return isinstance(found, NodeReports) and found.ended is not None

    def end(self, node: NodeKey, resource: int) -> None:
        """Note that the user's function returned by itself: no report comes after this resource."""
        self._in_lists(node).ended = resource

    def ended(self, steps: Sequence[PathStep]) -> int | None:
        """Return the resource at which the user's function returned by itself on this path. None if none is known."""
        for number, step in enumerate(steps):
            found = self.nodes.get(step.node)
            ended = found.ended if isinstance(found, NodeReports) else None
            # A node may have been trained beyond the resource at which this path leaves it.
            if ended is not None and (number + 1 == len(steps) or ended <= steps[number + 1].start):
                return ended
        return None

    def between(self, steps: Sequence[PathStep], after: int, upto: int) -> Iterator[tuple[int, float | None]]:
        """Yield the reports on a path at resources above ``after`` and not above ``upto``, in order."""
        for number, step in enumerate(steps):
            end = steps[number + 1].start if number + 1 < len(steps) else upto
            found = self.nodes.get(step.node)
            if found is None or end <= after:
                continue
            low, high = max(after, step.start), min(end, upto)
            if isinstance(found, ReportRow):
                begin = max(0, low + 1 - found.first)
                yield from enumerate(found[begin : max(0, high + 1 - found.first)], found.first + begin)
            else:
                places = slice(bisect.bisect_right(found.resources, low), bisect.bisect_right(found.resources, high))
                yield from zip(found.resources[places], found.values[places], strict=True)


class NoReports(KnownReports):
    """The reports of trials that share nothing: no trial reads another's reports, so none are kept."""

    def restore(self, nodes: Mapping[NodeKey, NodeReports]) -> None:
        pass

    def report(self, node: NodeKey, resource: int, value: float | None) -> None:
        pass

    def settle(self, node: NodeKey) -> None:
        pass

    def end(self, node: NodeKey, resource: int) -> None:
        pass
