"""A clock that is moved by hand, and the heap of what happens when. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable

Happening = Callable[[], None]


class VirtualClock:
    """Runs happenings in order of time; equal times in the order in which they were asked for."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._heap: list[tuple[float, int, Happening]] = []
        self._count = 0
        self._is_halted = False

    def after(self, delay_s: float, happening: Happening) -> None:
        """Let something happen ``delay_s`` seconds from now."""
        self.at(self.now + delay_s, happening)

    def at(self, when: float, happening: Happening) -> None:
        """Let something happen at a point in time, or now if that is past."""
        self._count += 1
        heapq.heappush(self._heap, (max(when, self.now), self._count, happening))

    def halt(self) -> None:
        """Let no further time pass in the present ``run``."""
        self._is_halted = True

    def run(self, until: float = float("inf"), max_happenings: int = 100_000_000) -> None:
        """Let time pass until nothing is left to happen, the clock would pass ``until``, or it is halted."""
        self._is_halted = False
        heap = self._heap
        for _ in range(max_happenings):
            if not heap or self._is_halted:
                return
            if heap[0][0] > until:
                self.now = max(self.now, until)
                return
            self.now, _, happening = heapq.heappop(heap)
            happening()
        raise RuntimeError(f"the simulation did not end after {max_happenings} happenings, at {self.now} s")
