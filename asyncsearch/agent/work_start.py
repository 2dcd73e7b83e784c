"""The time from the coming of work to this worker until its process begins it: a fetch, and the start of a process."""

from __future__ import annotations

import time
from collections.abc import Callable

from asyncsearch.events import Spent


class WorkStart:
    """The present work's."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._came_s = self._ready_s = clock()
        self._has_load = False
        self._could_begin_s: float | None = None
        """None: it waits for its checkpoint."""

    def begin(self, *, has_load: bool) -> None:
        """Note that work has come; ``has_load``: it begins with a checkpoint, which is to be fetched."""
        self._came_s, self._has_load, self._could_begin_s = self._clock(), has_load, None

    def could_begin(self) -> None:
        """Note that nothing is missing but a process; a call again, for the next process, changes nothing."""
        if self._could_begin_s is None:
            self._could_begin_s = self._clock()

    def process_ready(self) -> None:
        """Note that a process waits for work, or for the work that it was given already."""
        self._ready_s = self._clock()

    def added_to(self, spent: Spent) -> Spent:
        """Return what the process did, and before it this worker."""
        could_begin_s = self._clock() if self._could_begin_s is None else self._could_begin_s
        fetched_s = could_begin_s - self._came_s if self._has_load else 0.0
        starting_s = max(0.0, self._ready_s - could_begin_s)
        return spent._replace(starting=int(1000 * starting_s), loading=spent.loading + int(1000 * fetched_s))
