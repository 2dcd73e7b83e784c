"""Gives back the slots of workers that can get nothing before another trial reports, and takes them again. Pure.

A worker is of use while it trains or stores, and while something could begin: a trial that waits, a promotion that is
due, a trial that may be created, a gang that gathers. The others hold a slot of the cluster for nothing. Their slots go
back after a while, and a worker is launched in one again as soon as there is work for it. What is decided about trials
is as if they had stayed: a promotion that is due is decided when a slot is free, not when its worker has started.

Under a ``Cluster`` the broker says how many workers a study has, see ``share``. With ``autoscale=`` idle workers are
what a training grows by, so they stay.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET

from asyncsearch.actions import DismissWorker, LaunchWorker
from asyncsearch.engine.affected import is_unused
from asyncsearch.engine.next_trials import promote_next
from asyncsearch.engine.pool import SlotState
from asyncsearch.engine.sizing.gangs import is_scaled
from asyncsearch.engine.sizing.share import demand
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.stopping import Emit
from asyncsearch.events import WorkersIdled
from asyncsearch.ids import WorkerId


def surplus(state: StudyState) -> int:
    """Return how many workers there are beyond those that could get something before another trial reports.

    Those of one trial are never among them: so the study always has a slot, whoever else takes the others.
    """
    run = state.run
    if run is None or state.stopping or run.share is not UNSET or is_scaled(state):
        return 0
    each = 1 if state.gang is None else state.gang.size
    return state.pool.count_alive() - max(each, demand(state, run.parallelism))


def release(state: StudyState, event: WorkersIdled, emit: Emit) -> None:
    """Give back the slots of workers that had no use for long, as far as the study has none for them now."""
    spare = surplus(state)
    reason = f"it had nothing to train for {event.seconds:g} s: its slot goes back until there is work"
    for worker, epoch in reversed(event.workers):
        if spare > 0 and is_unused(state, worker, epoch):
            spare -= 1
            emit(DismissWorker(worker, epoch, reason, is_released=True))


def recall(state: StudyState, emit: Emit) -> None:
    """Launch workers in slots that went back, as many as could begin something now."""
    if state.run is None or state.stopping:
        return
    while state.pool.released and surplus(state) < 0:
        # First: one that goes on in place needs no worker, and of several only the next one counts as work.
        promote_next(state, emit)
        if surplus(state) < 0:
            worker = min(state.pool.released)
            emit(LaunchWorker(worker, state.pool.epoch(worker) + 1))


class IdleTimes:
    """Since when each worker has no use, and when that is too long."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._since_s: dict[tuple[WorkerId, int], float] = {}

    def observe(self, state: StudyState, now: float) -> None:
        """Note which workers have no use, after each change of the state."""
        unused = set(_unused(state)) if state.pool.first_idle() is not None else set()
        self._since_s = {launch: self._since_s.get(launch, now) for launch in sorted(unused)}

    def next_due(self) -> float | None:
        """Return when to ask ``overdue``; None while no worker is without a use."""
        return min((since_s + self._limit_s for since_s in self._since_s.values()), default=None)

    def overdue(self, state: StudyState, now: float) -> WorkersIdled | None:
        """Return the workers that had no use for too long; None if the study has a use for them after all."""
        late = [launch for launch, since_s in self._since_s.items() if now >= since_s + self._limit_s]
        self._since_s.update(dict.fromkeys(late, now))  # those that stay are looked at again after as long
        return WorkersIdled(tuple(late), self._limit_s) if late and surplus(state) > 0 else None


def _unused(state: StudyState) -> Iterable[tuple[WorkerId, int]]:
    storing = {attempt.lease.worker for attempt in state.attempts.values()}
    for slot in state.pool.slots.values():
        if slot.state is SlotState.IDLE and slot.worker not in storing:
            yield slot.worker, slot.epoch
