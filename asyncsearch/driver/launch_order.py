"""Which launches begin now, and which wait until those before them are there."""

from __future__ import annotations

from collections import deque

from asyncsearch.driver.store_waits import Worker


class LaunchOrder:
    """Holds launches back. Each method returns the launches that begin now, in the order of their requests.

    Workers that share the driver's few cores hinder each other while they start: all would attach late. So few of them
    start at once, and the others as soon as the first is there to train.
    """

    def __init__(self, at_once: int | None) -> None:
        """Begin without launches.

        Args:
            at_once: how many may be starting, from 1, until one has attached; None for any number.
        """
        self._at_once = at_once
        self._waiting: deque[Worker] = deque()
        self._starting: set[Worker] = set()

    @property
    def is_holding(self) -> bool:
        """Whether a launch waits."""
        return bool(self._waiting)

    def request(self, launch: Worker) -> list[Worker]:
        """Take a launch that was decided."""
        self._waiting.append(launch)
        return self._next()

    def ended(self, launch: Worker) -> list[Worker]:
        """Note that a launch has ended, which may not have attached."""
        self._starting.discard(launch)
        return self._next()

    def release(self) -> list[Worker]:
        """Hold nothing back from now on: a worker has attached, or they were held for long."""
        self._at_once = None
        return self._next()

    def call_off(self, launch: Worker) -> bool:
        """Drop a launch if it still waits, and return whether it did."""
        if launch not in self._waiting:
            return False
        self._waiting.remove(launch)
        return True

    def _next(self) -> list[Worker]:
        begun: list[Worker] = []
        while self._waiting and (self._at_once is None or len(self._starting) < self._at_once):
            begun.append(self._waiting.popleft())
            self._starting.add(begun[-1])
        return begun
