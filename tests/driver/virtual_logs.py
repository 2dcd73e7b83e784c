"""A ``LogSink`` on a virtual clock, over a store that counts its calls and takes time for each."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, cast

from asyncsearch.driver.log_backlog import LogBounds
from asyncsearch.driver.logs import LogSink
from asyncsearch.ids import Lease, WorkerId
from asyncsearch.rpc.messages import LogLine, LogLines
from asyncsearch.store.logs.writer import LogWriter
from tests.store.log_worlds import World


class VirtualLoop:
    """Calls what is due when the clock of a world comes there."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()

    def call_later(self, delay_s: float, call: Callable[..., object], *arguments: Any) -> Any:
        due = (self._world.now_s + delay_s, next(self._numbers), lambda: call(*arguments))
        heapq.heappush(self._due, due)
        return self

    def call_soon_threadsafe(self, call: Callable[..., object], *arguments: Any) -> None:
        self.call_later(0.0, call, *arguments)

    def run_until(self, time_s: float) -> None:
        while self._due and self._due[0][0] <= time_s:
            self._world.now_s, _, call = heapq.heappop(self._due)
            call()
        self._world.now_s = time_s


class VirtualThread(Executor):
    """One thread: what it is given takes as long as the calls of the store that it makes."""

    def __init__(self, world: World, loop: VirtualLoop) -> None:
        self._world, self._loop = world, loop
        self.running = self.most_queued = 0

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        self.most_queued = max(self.most_queued, self.running)
        self.running += 1
        self._world.spent_s = 0.0
        result = function(*arguments, **named)
        took_s, self._world.spent_s = self._world.spent_s, 0.0

        def end() -> None:
            self.running -= 1
            done.set_result(result)

        self._loop.call_later(took_s, end)
        return done


class VirtualLogs:
    """The sink of a driver."""

    def __init__(self, kind: str, bounds: LogBounds | None = None) -> None:
        """Begin; ``kind`` is that of the ``World``."""
        self.world = World(kind)
        self.loop = VirtualLoop(self.world)
        self.thread = VirtualThread(self.world, self.loop)
        self.world.open_log = lambda: LogWriter(self.world, self.world.clock)  # type: ignore[attr-defined]
        self.sink = LogSink(cast("Any", self.world), cast("Any", self.loop), bounds=bounds, executor=self.thread)

    def prints(self, trial: int, text: str) -> None:
        """Take a line of a trial."""
        line = LogLine(self.world.now_s, text)
        self.sink.take(f"trial-{trial}", LogLines(Lease(trial, WorkerId(trial), 1), (line,)))

    def end(self) -> float:
        """End the run, and return how long the end waits."""
        began_s = self.world.now_s
        while self.thread.running:
            self.loop.run_until(self.world.now_s + 0.01)
        self.world.spent_s = 0.0
        self.sink._write_last()
        return self.world.now_s - began_s + self.world.spent_s
