"""Stages that can begin now: durable points at which stages start, in the order of choice, and evaluations. Pure.

An evaluation is a stage of no units at a durable point that a trial requests and whose metric is unknown. It begins and
ends at its point, no stage follows it, and it comes before all training: it is short, and decisions wait for it. A
lease that trains to a point may still report there, so a point at which a lease will end is not evaluated.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator

from asyncsearch.ids import CheckpointRef
from asyncsearch.plan.nodes import HELD_WORTH, Point, PointKey, PointState, ascending

ReadyEntry = tuple[PointKey, Point]

_BEST, _URGENT = 0, 1
_SLACK = 8


class ReadyPoints:
    """Durable points, each with the keys of its best stage and of its best urgent stage."""

    def __init__(self) -> None:
        self._entries: dict[Point, tuple[ReadyEntry, ReadyEntry | None]] = {}
        self._heaps: tuple[list[ReadyEntry], list[ReadyEntry]] = ([], [])

    def offer(self, point: Point) -> None:
        """Update the position of a durable point, or forget it if no stage starts there."""
        best, urgent = point.best(), point.best_urgent()
        if best is None:
            self.withdraw(point)
            return
        former, former_urgent = self._entries.get(point, (None, None))
        entry = former if former is not None and former[0] == best.key else (best.key, point)
        entry_urgent = None
        if urgent is not None:
            is_same = former_urgent is not None and former_urgent[0] == urgent.key
            entry_urgent = former_urgent if is_same else (urgent.key, point)
        self._entries[point] = (entry, entry_urgent)
        if entry is not former:
            self._push(_BEST, entry)
        if entry_urgent is not None and entry_urgent is not former_urgent:
            self._push(_URGENT, entry_urgent)

    def withdraw(self, point: Point) -> None:
        """Forget a point that is not durable any more, or at which no stage starts."""
        if self._entries.pop(point, None) is not None:
            self._compact(_BEST)
            self._compact(_URGENT)

    def choose(self, held: Iterable[Point]) -> Point | None:
        """Return the end of the stage to begin with; see ``SearchPlan.next_batch`` for the order."""
        host = self._top(_URGENT)
        pick = Point.best_urgent if host is not None else Point.best
        host = host or self._top(_BEST)
        first = None if host is None else pick(host)
        if first is None:
            return None
        chosen: Point | None = None
        for point in held:
            stage = pick(point) if point in self._entries else None
            is_worth = stage is not None and stage.key[0] * HELD_WORTH <= first.key[0]
            if stage is not None and is_worth and (chosen is None or stage.key < chosen.key):
                chosen = stage
        return chosen or first

    def in_order(self) -> Iterator[Point]:
        """Yield the ends of all stages that can begin now, each once: urgent ones first, then by their keys."""
        seen: set[Point] = set()
        for which in (_URGENT, _BEST):
            for point in self._stages(which):
                if point not in seen:
                    seen.add(point)
                    yield point

    def _stages(self, which: int) -> Iterator[Point]:
        """Yield the ends of the stages of one heap by their keys; the first k of them take O(k log k)."""
        hosts = (entry for entry in ascending(self._heaps[which]) if self._is_current(which, entry))
        waiting = next(hosts, None)
        opened: list[tuple[PointKey, int, Point, Iterator[Point]]] = []

        def open_next(stages: Iterator[Point], number: int) -> None:
            point = next(stages, None)
            if point is not None:
                heapq.heappush(opened, (point.key, number, point, stages))

        count = 0
        while opened or waiting is not None:
            if waiting is not None and (not opened or waiting[0] <= opened[0][0]):
                open_next(waiting[1].stages_in_order(is_urgent=which == _URGENT), count)
                count += 1
                waiting = next(hosts, None)
                continue
            _, number, point, stages = heapq.heappop(opened)
            yield point
            open_next(stages, number)

    def _top(self, which: int) -> Point | None:
        heap = self._heaps[which]
        while heap:
            if self._is_current(which, heap[0]):
                return heap[0][1]
            heapq.heappop(heap)
        return None

    def _is_current(self, which: int, entry: ReadyEntry) -> bool:
        entries = self._entries.get(entry[1])
        return entries is not None and entries[which] is entry

    def _push(self, which: int, entry: ReadyEntry) -> None:
        heapq.heappush(self._heaps[which], entry)
        self._compact(which)

    def _compact(self, which: int) -> None:
        """Drop outdated entries when they are the majority: they would keep removed points in memory."""
        heap = self._heaps[which]
        if len(heap) > 2 * len(self._entries) + _SLACK:
            heap[:] = [entry for entry in heap if self._is_current(which, entry)]
            heapq.heapify(heap)


class Evaluations:
    """Checkpoints without the metric, positions where a lease may report it soon, and the resulting stages."""

    def __init__(self) -> None:
        self.unmeasured: set[CheckpointRef] = set()
        """Durable checkpoints that may be evaluated, since the metric was not reported there."""
        self.awaited: Counter[CheckpointRef] = Counter()
        """How many leases will end at a position, or evaluate it."""
        self._stages: dict[CheckpointRef, Point] = {}

    @property
    def is_any(self) -> bool:
        """Whether there is any evaluation, or was one until now."""
        return bool(self.unmeasured or self._stages)

    def settle(self, point: Point, *, is_blocked: bool) -> None:
        """Create, reprioritise or remove the evaluation of a point, as its state requires."""
        ref = CheckpointRef(point.node.key, point.resource)
        stage = self._stages.get(ref)
        is_due = (
            point.state is PointState.DURABLE
            and bool(point.trials)
            and ref in self.unmeasured
            and not self.awaited[ref]
            and not is_blocked
        )
        if not is_due:
            if stage is not None:
                del self._stages[ref]
                stage.detach()
        elif stage is None:
            stage = self._stages[ref] = Point(point.node, point.resource, PointState.PENDING)
            stage.trials, stage.urgent_trials = point.trials, point.urgent_trials
            stage.attach(point)
        else:
            stage.urgent_trials = point.urgent_trials
            stage.refresh()

    def find(self, ref: CheckpointRef) -> Point | None:
        """Return the evaluation of a position, if there is one now."""
        return self._stages.get(ref)
