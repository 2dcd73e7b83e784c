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

    def after(self, delay_s: float, happening: Happening) -> None:
        """Let something happen ``delay_s`` seconds from now."""
        self._count += 1
        heapq.heappush(self._heap, (self.now + delay_s, self._count, happening))

    def run(self, until: float = float("inf"), max_happenings: int = 100_000_000) -> None:
        """Let time pass until nothing is left to happen or the clock would pass ``until``."""
        for _ in range(max_happenings):
            if not self._heap or self._heap[0][0] > until:
                return
            self.now, _, happening = heapq.heappop(self._heap)
            happening()
        raise RuntimeError(f"the simulation did not end after {max_happenings} happenings, at {self.now} s")
