"""The driver's clock of idle workers: it tells the engine once the time is over, whatever else happens."""

from __future__ import annotations

import asyncio

from asyncsearch.driver.alarms import IdleWorkers
from asyncsearch.engine.handling import handle
from asyncsearch.events import AnyEvent, DriverStarted, RunRequested, WorkerAttached, WorkersIdled
from asyncsearch.ids import WorkerId
from asyncsearch.schedulers import FIFO
from tests.engine.tools import make_state

PATIENCE_S = 60.0


async def told_by(limit_s: float | None) -> AnyEvent | None:
    """Return what is told of two workers of which one has no use; None if no time runs."""
    state, loop = make_state(FIFO(max_resource=3)), asyncio.get_running_loop()
    told: asyncio.Queue[AnyEvent] = asyncio.Queue()
    idle = IdleWorkers(state, limit_s, loop, post=told.put_nowait)
    dues: list[float | None] = []
    events: list[AnyEvent] = [DriverStarted("test"), RunRequested(1, 2)]
    for event in [*events, WorkerAttached(WorkerId(0), 1), WorkerAttached(WorkerId(1), 1)]:
        handle(state, event, 0.0)
        idle.observe()
        dues.append(idle.due_s)
    assert dues[:3] == [None] * 3, "the one worker trains"
    if dues[3] is None:
        return None
    found = await asyncio.wait_for(told.get(), PATIENCE_S)
    idle.close()
    return found


def test_a_worker_without_a_use_is_told_once_its_time_is_over() -> None:
    assert asyncio.run(told_by(0.01)) == WorkersIdled(((WorkerId(1), 1),), 0.01)


def test_without_a_limit_no_time_runs() -> None:
    assert asyncio.run(told_by(None)) is None
