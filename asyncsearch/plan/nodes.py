"""Points: positions of the plan that trials request or stages start from, each with its stages.

A *stage* is a pending point: it trains from its host, the point below it, to itself. A heap orders the stages of one
host; it keeps outdated entries until they reach its top, so that a change costs O(log n) whether a host has two stages
or 100,000.
"""

from __future__ import annotations

import enum
import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, TypeVar

from asyncsearch.ids import NodeKey, TrialId
from asyncsearch.trial import UNBOUNDED

PointKey = tuple[int, int, int]
"""The first choice is the smallest: minus the height, the total, the smallest trial of a stage and its successors."""

NO_TRIAL = 2**63
FIRST = 2**62
"""Height of an evaluation, which therefore comes before all training."""
HELD_WORTH = 4
"""Stages that load a worker's cached checkpoint come first, unless a path to a leaf is over this many times as long."""
_SLACK = 8

E = TypeVar("E", bound=tuple[Any, ...])


class PointState(enum.IntEnum):
    """Whether a point is still to be trained."""

    DURABLE = 0
    """Done: its checkpoint can be loaded."""
    RUNNING = 1
    """In progress: a worker trains to it."""
    PENDING = 2
    """To be trained, from its host."""


class Span:
    """The part of one node that a lease trains: from ``begin`` to ``stop``, done up to ``position``."""

    __slots__ = ("begin", "boundaries", "lease", "node", "position", "stop")

    def __init__(self, lease: int, node: PlanNode, begin: int, stop: int) -> None:
        self.lease = lease
        self.node = node
        self.begin = begin
        self.position = begin
        self.stop = stop
        self.boundaries: set[int] = set()
        """Resources at which the worker saves."""

    def finish(self) -> None:
        """Leave its node, once."""
        if self in self.node.spans:
            self.node.spans.remove(self)


class PlanNode:
    """A node of the plan with pending or running work in it or below it."""

    __slots__ = ("children", "cost", "key", "parent", "points", "resources", "spans", "start")

    def __init__(self, key: NodeKey, start: int, parent: PlanNode | None, cost: int) -> None:
        self.key = key
        self.start = start
        self.parent = parent
        self.children: dict[NodeKey, PlanNode] | None = None
        self.cost = cost
        """Cost of a unit; see ``plan.costs``."""
        self.resources: list[int] = []
        """Resources of its points, in order."""
        self.points: list[Point] = []
        self.spans: list[Span] = []
        """The parts of it that run now."""

    def at(self, resource: int) -> Point | None:
        """Return the point at a resource, or None."""
        index = bisect_left(self.resources, resource)
        return self.points[index] if index < len(self.resources) and self.resources[index] == resource else None

    def points_in(self, low: int, high: int) -> list[Point]:
        """Return the points with low < resource <= high, in order."""
        return self.points[bisect_right(self.resources, low) : bisect_right(self.resources, high)]


class Point:
    """A position, the requests for it, and the stages that start there."""

    __slots__ = (
        "_best",
        "_first",
        "_urgent",
        "after",
        "branches",
        "count",
        "host",
        "is_urgent",
        "key",
        "length",
        "node",
        "resource",
        "size",
        "state",
        "total",
        "trials",
        "urgent_count",
        "urgent_trials",
    )

    def __init__(self, node: PlanNode, resource: int, state: PointState) -> None:
        self.node = node
        self.resource = resource
        self.state = state
        self.trials: list[TrialId] = []
        """The trials that request it, in order."""
        self.urgent_trials = 0
        self.host: Point | None = None
        """The point at which its stage starts; None unless it is pending."""
        self.length = 0
        """Cost from its host to it."""
        self.key: PointKey = (0, 0, 0)
        """Its position among the stages of its host; a new object at each change."""
        self.is_urgent = False
        self.count = 0
        """How many stages start here."""
        self.branches = 0
        """How many of them belong to other nodes, which therefore need it."""
        self.urgent_count = 0
        self.total = 0
        """Cost of all stages that start here, and of all later ones."""
        self.size = 0
        """How many trials request it or, if it is pending, points trained from it."""
        self.after = 0
        """How many of them request points trained from it."""
        self._best: list[tuple[PointKey, Point]] = []
        self._urgent: list[tuple[PointKey, Point]] | None = None
        self._first: list[tuple[int, Point]] = []

    def __lt__(self, other: Point) -> bool:
        """Entries with equal keys may be in any order: at most one of them is not outdated."""
        return False

    def is_needed(self) -> bool:
        """Return whether a trial or a stage needs it."""
        if self.trials:
            return True
        return self.branches > 0 if self.state is PointState.PENDING else self.count > 0

    def attach(self, host: Point) -> None:
        """Begin its stage at ``host``."""
        self.host = host
        self.price()
        self.key, self.is_urgent = self._merit()
        self.size = len(self.trials) + self.after
        host.after += self.size
        host.count += 1
        host.branches += host.node is not self.node
        host.urgent_count += self.is_urgent
        host.total += self.key[1]
        host._push(self)
        host._push_first(self)

    def detach(self) -> Point:
        """Remove its stage; return the point where it began."""
        host = self.host
        assert host is not None
        host.count -= 1
        host.branches -= host.node is not self.node
        host.urgent_count -= self.is_urgent
        host.total -= self.key[1]
        host.after -= self.size
        self.host = None
        host._forget()
        return host

    def price(self) -> None:
        """Compute the cost of its stage; a stage without an end counts as one unit, one of no units comes first."""
        assert self.host is not None
        units = 1 if self.resource == UNBOUNDED else self.resource - self.host.resource
        self.length = units * self.node.cost or FIRST

    def refresh(self) -> bool:
        """Update its position among the stages of its host; return whether it changed."""
        host = self.host
        assert host is not None
        key, is_urgent = self._merit()
        grown = len(self.trials) + self.after - self.size
        self.size += grown
        host.after += grown
        if key == self.key and is_urgent == self.is_urgent:
            return grown != 0
        host.urgent_count += is_urgent - self.is_urgent
        host.total += key[1] - self.key[1]
        is_other_first = key[2] != self.key[2]
        self.key, self.is_urgent = key, is_urgent
        host._push(self)
        if is_other_first:
            host._push_first(self)
        return True

    def best(self) -> Point | None:
        """Return the stage that starts here and has the longest path after it."""
        return self._top(self._best) if self.count else None

    def best_urgent(self) -> Point | None:
        """Return the same among the urgent stages."""
        return self._top(self._urgent) if self.urgent_count and self._urgent else None

    def stages(self) -> Iterator[Point]:
        """Return the ends of all stages that start here, in arbitrary order."""
        return (point for key, point in self._best if point.host is self and point.key is key)

    def stages_in_order(self, *, is_urgent: bool = False) -> Iterator[Point]:
        """Yield the ends of the stages that start here, or of the urgent ones, by their keys."""
        heap = (self._urgent or []) if is_urgent else self._best
        return (
            point
            for key, point in ascending(heap)
            if point.host is self and point.key is key and (point.is_urgent or not is_urgent)
        )

    def first_trials(self, most: int) -> list[TrialId]:
        """Return the smallest trials that request it or points trained from it, in order.

        It examines about as many entries as it returns, however many there are.
        """
        found: list[TrialId] = []
        ahead: list[tuple[int, int, Point, int, bool]] = []
        seen = {self}

        def look(trial: int, point: Point, index: int, is_stage: bool) -> None:
            heapq.heappush(ahead, (trial, len(seen) + len(ahead), point, index, is_stage))

        def open_point(point: Point) -> None:
            if point.trials:
                look(point.trials[0], point, 0, False)
            if point._first:
                look(point._first[0][0], point, 0, True)

        open_point(self)
        while ahead and len(found) < most:
            trial, _, point, index, is_stage = heapq.heappop(ahead)
            if not is_stage:
                found.append(TrialId(trial))
                if index + 1 < len(point.trials):
                    look(point.trials[index + 1], point, index + 1, False)
                continue
            for below in range(2 * index + 1, min(2 * index + 3, len(point._first))):
                look(point._first[below][0], point, below, True)
            stage = point._first[index][1]
            if stage.host is point and stage.key[2] == trial and stage not in seen:
                seen.add(stage)
                open_point(stage)
        return found

    def _merit(self) -> tuple[PointKey, bool]:
        best = self.best()
        after = 0 if best is None else -best.key[0]
        trial = min(self.trials[0] if self.trials else NO_TRIAL, self._first_trial())
        is_urgent = self.urgent_trials > 0 or self.urgent_count > 0
        return (-self.length - after, self.length + self.total, trial), is_urgent

    def _top(self, heap: list[tuple[PointKey, Point]]) -> Point:
        while True:
            key, point = heap[0]
            if point.host is self and point.key is key:
                return point
            heapq.heappop(heap)

    def _first_trial(self) -> int:
        heap = self._first
        while self.count:
            trial, point = heap[0]
            if point.host is self and point.key[2] == trial:
                return trial
            heapq.heappop(heap)
        return NO_TRIAL

    def _push(self, point: Point) -> None:
        heapq.heappush(self._best, (point.key, point))
        if point.is_urgent:
            if self._urgent is None:
                self._urgent = []
            heapq.heappush(self._urgent, (point.key, point))
        self._forget()

    def _push_first(self, point: Point) -> None:
        heapq.heappush(self._first, (point.key[2], point))

    def _forget(self) -> None:
        """Drop outdated entries when they are the majority, so that heaps stay proportional to their content."""
        if len(self._best) > 2 * self.count + _SLACK:
            self._best = [(point.key, point) for point in self.stages()]
            heapq.heapify(self._best)
        if len(self._first) > 2 * self.count + _SLACK:
            self._first = [(point.key[2], point) for point in self.stages()]
            heapq.heapify(self._first)
        if self._urgent is not None and len(self._urgent) > 2 * self.urgent_count + _SLACK:
            self._urgent = [(point.key, point) for point in self.stages() if point.is_urgent] or None
            if self._urgent is not None:
                heapq.heapify(self._urgent)


def ascending(heap: list[E]) -> Iterator[E]:
    """Yield the entries of a heap in ascending order without changing it; the first k of them take O(k log k).

    The heap must not change meanwhile.
    """
    ahead = [(heap[0], 0)] if heap else []
    while ahead:
        entry, index = heapq.heappop(ahead)
        yield entry
        for below in range(2 * index + 1, min(2 * index + 3, len(heap))):
            heapq.heappush(ahead, (heap[below], below))
