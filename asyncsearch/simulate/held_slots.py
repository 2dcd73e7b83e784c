"""The slots that virtual workers hold, and the clock by which those without a use give theirs back. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable

from asyncsearch.engine.sizing.idle_slots import IdleTimes, surplus
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent
from asyncsearch.ids import WorkerId
from asyncsearch.simulate.virtual_cluster import VirtualClock


class HeldSlots:
    """Counts for how long slots are held, and tells the study which workers were idle for too long."""

    def __init__(
        self, state: StudyState, clock: VirtualClock, limit_s: float | None, tell: Callable[[AnyEvent], None]
    ) -> None:
        """Begin without workers; ``limit_s``: how long a worker keeps its slot without a use, None for ever."""
        self._state, self._clock, self._tell = state, clock, tell
        self._times = None if limit_s is None else IdleTimes(limit_s)
        self._due_s = math.inf
        """When idle workers are looked at next."""
        self._since_s: dict[WorkerId, float] = {}
        self._past_s = 0.0

    @property
    def seconds(self) -> float:
        """For how many seconds slots were held, all together: from the launch of a worker until it was gone."""
        return self._past_s + sum(self._clock.now - since_s for since_s in self._since_s.values())

    def begin(self, worker: WorkerId) -> None:
        """Note that a worker is launched."""
        self.end(worker)
        self._since_s[worker] = self._clock.now

    def end(self, worker: WorkerId) -> None:
        """Note that nothing runs in a slot any more."""
        if (since_s := self._since_s.pop(worker, None)) is not None:
            self._past_s += self._clock.now - since_s

    def observe(self) -> None:
        """Note which workers have no use, after each event. Of those with one, the study's next event tells."""
        if self._times is not None:
            self._times.observe(self._state, self._clock.now)
            self._look_later(self._times)

    def _look_later(self, times: IdleTimes) -> None:
        due_s = times.next_due() if surplus(self._state) > 0 else None
        if due_s is not None and due_s < self._due_s:
            self._due_s = due_s
            self._clock.at(due_s, lambda: self._look(times))

    def _look(self, times: IdleTimes) -> None:
        self._due_s = math.inf
        idled = times.overdue(self._state, self._clock.now)
        if idled is not None:
            self._tell(idled)
        else:
            self._look_later(times)
