"""One timer of the driver's loop for each kind of moment: nothing polls.

``Alarm`` is the timer; stop rules that hold by time alone, and workers without a use, each have one here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from asyncsearch.engine.sizing.idle_slots import IdleTimes
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.stop_decisions import due_s
from asyncsearch.events import AnyEvent, RuleDue


class Alarm:
    """One timer of a loop, set to the earliest of the moments that it was given since it last rang.

    Args:
        loop: the driver's.
        ring: called at that moment, with it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[float], None]) -> None:
        self._loop, self._ring = loop, ring
        self._timer: asyncio.TimerHandle | None = None

    @property
    def due_s(self) -> float | None:
        """The moment, by the loop's clock. None if it is not set."""
        return None if self._timer is None else self._timer.when()

    def set_by(self, due_s: float | None) -> None:
        """Ring at a moment, if there is one, or earlier if it is set to an earlier one."""
        if due_s is not None and (self._timer is None or due_s < self._timer.when()):
            self.cancel()
            self._timer = self._loop.call_at(due_s, self._on_time)

    def cancel(self) -> None:
        """Ring no more, until it is set again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            self._ring(timer.when())


class RuleTimes:
    """The moment at which a stop rule may hold by time alone. Called in the driver's thread."""

    _SOON_S = 0.001
    """How much later it is asked: a timer may fire a little before its time."""

    def __init__(
        self,
        state: StudyState,
        clock: Callable[[], float],
        loop: asyncio.AbstractEventLoop,
        *,
        post: Callable[[AnyEvent], None],
    ) -> None:
        """Begin without a moment; ``clock``: seconds since 1970, as the journal has them; ``post``: to the engine."""
        self._state, self._clock, self._loop = state, clock, loop
        self._alarm = Alarm(loop, lambda due_s: post(RuleDue()))

    def observe(self) -> None:
        """Set the timer to the next moment; called after the state has changed."""
        if self._state.stop_facts is None:
            return
        now = self._clock()
        due = due_s(self._state, now)
        self.close()
        if due is not None:
            self._alarm.set_by(self._loop.time() + max(0.0, due - now) + self._SOON_S)

    def close(self) -> None:
        """Cancel the timer."""
        self._alarm.cancel()


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
        self._alarm = Alarm(loop, self._on_timer)

    def observe(self) -> None:
        """Note the workers that have no use now; called after the state has changed."""
        if self._times is not None:
            self._times.observe(self._state, self._loop.time())
            self._alarm.set_by(self._times.next_due())

    @property
    def due_s(self) -> float | None:
        """When it looks again, by the loop's clock. None if nothing makes it look."""
        return self._alarm.due_s

    def close(self) -> None:
        """Cancel the timer."""
        self._alarm.cancel()

    def _on_timer(self, due_s: float) -> None:
        assert self._times is not None
        idled = self._times.overdue(self._state, self._loop.time())
        if idled is not None:
            self._post(idled)
        self._alarm.set_by(self._times.next_due())
