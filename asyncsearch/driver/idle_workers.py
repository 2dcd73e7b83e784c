"""Tells the engine which workers have had no use for long, so that their slots go back. One timer; nothing polls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from asyncsearch.engine.sizing.idle_slots import IdleTimes
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent


class IdleWorkers:
    """The time that each worker has had no use. Called in the driver's thread."""

    def __init__(
        self,
        state: StudyState,
        limit_s: float | None,
        loop: asyncio.AbstractEventLoop,
        *,
        post: Callable[[AnyEvent], None],
    ) -> None:
        """Begin without workers.

        Args:
            state: of the study.
            limit_s: how long a worker keeps its slot without a use. None means for ever.
            loop: the driver's.
            post: sends an event to the engine.
        """
        self._state, self._loop, self._post = state, loop, post
        self._times = None if limit_s is None else IdleTimes(limit_s)
        self._timer: asyncio.TimerHandle | None = None

    def observe(self) -> None:
        """Note who has no use now; called after the state has changed."""
        if self._times is not None:
            self._times.observe(self._state, self._loop.time())
            self._arm(self._times.next_due())

    @property
    def due_s(self) -> float | None:
        """When it looks again, by the loop's clock. None if nothing makes it look."""
        return None if self._timer is None else self._timer.when()

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, due_s: float | None) -> None:
        if due_s is not None and (self._timer is None or due_s < self._timer.when()):
            self.close()
            self._timer = self._loop.call_at(due_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        assert self._times is not None
        idled = self._times.overdue(self._state, self._loop.time())
        if idled is not None:
            self._post(idled)
        self._arm(self._times.next_due())
