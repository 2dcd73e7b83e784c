"""The cost of a boundary between two stages of a batch: from the end of one unit to the start of the next.

A runner with its own agent saves a file at each boundary and continues without reloading. The baseline is the same loop
in plain Python, which writes the same file to the same folder.
"""

from __future__ import annotations

import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from asyncsearch import TrialContext
from asyncsearch.actions import Assign, DismissWorker
from asyncsearch.agent.agent import run_agent
from asyncsearch.agent.config import WorkerConfig
from asyncsearch.events import Outcome, TrainingEnded
from asyncsearch.ids import Lease, NodeKey, TrialId, WorkerId
from asyncsearch.launch.bundle import pack
from asyncsearch.rpc.messages import DriverMessage, Endpoint, Hello, WorkerMessage
from asyncsearch.store import open_store
from asyncsearch.work import Lane, Stage, Work

BOUNDARIES = 200
SIZE = 1_000_000
_UNIT_S = 0.005
_WORKER = WorkerId(0)


class _Driver:
    """Assigns one lane, and releases the worker when the lane has ended."""

    def __init__(self, lane: Lane) -> None:
        self.error = ""
        self._lane = lane

    def __call__(
        self,
        endpoint: Endpoint | None,
        hello: Hello,
        *,
        deliver: Callable[[DriverMessage], None],
        closed: Callable[[Exception | None], None],
        reconnect_s: float,
    ) -> _Driver:
        self._deliver = deliver
        return self

    backlog = 0

    def open(self) -> None:
        self._deliver(Assign(Work(Lease(0, _WORKER, 1), (self._lane,))))

    def send(self, message: WorkerMessage) -> None:
        if isinstance(message, TrainingEnded):
            self.error = message.error if message.outcome is Outcome.FAILED else ""
            self._deliver(DismissWorker(_WORKER, 1, "done"))

    def heartbeat(self) -> None:
        pass

    def flush(self, timeout_s: float) -> bool:
        return True

    def close(self) -> None:
        pass


def _save(path: Path) -> None:
    path.write_bytes(os.urandom(SIZE))


def _steps(units: Iterator[int]) -> list[float]:
    """Train, and return the milliseconds between the two units at each boundary."""
    ended, steps = None, []
    for _ in units:
        began = time.perf_counter()
        if ended is not None:
            steps.append(1e3 * (began - ended))
        time.sleep(_UNIT_S)
        ended = time.perf_counter()
    return steps


def _trainable(note: Path) -> Callable[[TrialContext], None]:
    def train(trial: TrialContext) -> None:
        steps = _steps(trial.epochs(save=_save, load=lambda path: None))
        note.write_text("\n".join(map(repr, steps)))
        trial.report(x=1.0)

    return train


def _ours(folder: Path) -> list[float]:
    params = {"lr": {"sequence": "exponential", "value": 0.1, "gamma": 0.99}}
    stages = [
        Stage(NodeKey(f"{n:032x}"), params, (TrialId(0),), 0, n, n + 1, BOUNDARIES + 1, save=n < BOUNDARIES)
        for n in range(BOUNDARIES + 1)
    ]
    store = open_store(folder / "store")
    store.prepare()
    driver = _Driver(Lane(tuple(stages)))
    config = WorkerConfig(
        study="boundary",
        metric="x",
        bundle=pack(_trainable(folder / "steps")).data,
        store=store,
        endpoint=None,
        worker=_WORKER,
        epoch=1,
    )
    run_agent(config, connect=driver)
    if driver.error:
        raise RuntimeError(driver.error)
    return [float(line) for line in (folder / "steps").read_text().splitlines()]


def _plain(folder: Path) -> list[float]:
    def units() -> Iterator[int]:
        for number in itertools.count():
            yield number
            if number == BOUNDARIES:
                return
            _save(folder / f"plain-{number}")

    return _steps(units())


def boundary_ms() -> tuple[float, float]:
    """Return the median boundary of asyncsearch and of a plain loop, in milliseconds, including the save."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return statistics.median(_ours(folder)), statistics.median(_plain(folder))


if __name__ == "__main__":
    print(*boundary_ms())
