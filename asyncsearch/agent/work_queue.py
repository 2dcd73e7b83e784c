"""The lanes of a worker's work from their assignment to their ends, and the worker's place among those of a gang."""

from __future__ import annotations

import functools
import socket
from collections import deque

from asyncsearch.actions import AddLane
from asyncsearch.agent.config import WorkerConfig
from asyncsearch.agent.lane_run import LaneRun
from asyncsearch.ids import Lease
from asyncsearch.runner.protocol import GangSeat
from asyncsearch.work import GangMember, Work

_REMEMBERED = 16
"""Number of ended runs kept to recognize a refusal or a repeated assignment."""


class WorkQueue:
    """One lease after the other."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self.current: list[LaneRun] = []
        """The lanes of the present work that have not ended."""
        self._waiting: deque[list[LaneRun]] = deque()
        """Those of each later work."""
        self._known: deque[LaneRun] = deque(maxlen=_REMEMBERED)

    @property
    def sent(self) -> list[LaneRun]:
        """The lanes that the runner trains."""
        return [run for run in self.current if run.is_sent]

    @property
    def living(self) -> list[LaneRun]:
        """The lanes that have not ended."""
        return [*self.current, *(run for runs in self._waiting for run in runs)]

    @property
    def remembered(self) -> list[LaneRun]:
        """The lanes that have not ended, and the last ones that have."""
        return [*self._known, *self.living]

    def take(self, work: Work) -> None:
        """Add work, unless it is known."""
        if any(run.lease == work.lease for run in self._known):
            return
        runs = [LaneRun(work.lease, number, lane, self._config.log) for number, lane in enumerate(work.lanes)]
        for run in runs:
            run.measured = work.measured if isinstance(work.measured, tuple) else ()
            run.is_open = work.is_open is True
            run.seat = seat_in(work, self._config)
        self._known.extend(runs)
        self._waiting.append(runs)

    def add(self, action: AddLane) -> LaneRun | None:
        """Add a lane to its work, or as work of its own if that is over. None if it is known."""
        if any((run.lease, run.number) == (action.lease, action.lane) for run in self._known):
            return None
        run = LaneRun(action.lease, action.lane, action.added, self._config.log)
        run.is_open = run.has_joined = True
        self._known.append(run)
        works = [self.current, *self._waiting]
        work = next((runs for runs in works if runs and runs[0].lease == run.lease), None)
        if work is None:
            self._waiting.append([run])
        else:
            work.append(run)
        return run

    def begin_next(self) -> list[LaneRun]:
        """Make the next work the present one if that is over. Empty if nothing begins."""
        if self.current or not self._waiting:
            return []
        self.current = self._waiting.popleft()
        return list(self.current)

    def under(self, lease: Lease, lane: int) -> list[LaneRun]:
        """Return the lane of a lease. Empty if it has ended."""
        return [run for run in self.living if (run.lease, run.number) == (lease, lane)]

    def drop(self, run: LaneRun) -> None:
        """Remove a lane that has ended."""
        for runs in [runs for runs in (self.current, *self._waiting) if run in runs]:
            runs.remove(run)
            if not runs and runs is not self.current:
                self._waiting.remove(runs)


def seat_in(work: Work, config: WorkerConfig) -> GangSeat | None:
    """Return the place of this worker. None if it trains the work alone."""
    if not isinstance(work.gang, tuple):
        return None
    rank = work.gang.index(GangMember(config.worker, config.epoch))
    address = "" if config.endpoint is None else config.endpoint.address
    return GangSeat(rank, len(work.gang), own_address(address))


@functools.cache
def own_address(driver: str) -> str:
    """Return the address of this machine on the network on which it reaches the driver, ``host:port``.

    A host's name may stand for an address that other machines cannot reach, such as 127.0.1.1; this one has a way.
    """
    host, _, port = driver.rpartition(":")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(place)  # sends nothing
            return str(probe.getsockname()[0])
    except (OSError, ValueError):
        return "127.0.0.1"
