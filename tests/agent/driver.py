"""A driver in this process, an agent in a thread of it, and real runners: messages on the wire, no engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import cloudpickle
import msgspec

from asyncsearch.actions import Assign, DismissWorker, StopTraining
from asyncsearch.agent.agent import run_agent
from asyncsearch.agent.config import WorkerConfig
from asyncsearch.events import CheckpointCommitted, Outcome, Reported, TrainingEnded
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, TrialId, WorkerId
from asyncsearch.rpc.messages import DriverMessage, Endpoint, Hello, Judged, LogLines, WorkerMessage
from asyncsearch.store.local.store import LocalStore
from asyncsearch.trainable import Trainable
from asyncsearch.values import unspell
from asyncsearch.work import Lane, Stage, Work
from tests.untimed import untimed

M = TypeVar("M")

WORKER = WorkerId(0)
NODE = NodeKey("0" * 32)
DEADLINE_S = 60.0


class FakeDriver:
    """Both ends of a stream: the agent's, and what a test does with it."""

    def __init__(self) -> None:
        self.sent: list[WorkerMessage] = []
        self.heartbeats = 0
        self.backlog = 0
        self.answers = True
        """Whether a report that is awaited is answered at once, by nothing."""
        self.is_closed = False
        self.flushes_s: list[float] = []
        """How long the agent waited for its last messages to be acknowledged."""
        self.result = ""
        self.error: BaseException | None = None
        self.deliver: Callable[[DriverMessage], None]
        self.closed: Callable[[Exception | None], None]
        self._changed = threading.Condition()

    def __call__(
        self,
        endpoint: Endpoint | None,
        hello: Hello,
        *,
        deliver: Callable[[DriverMessage], None],
        closed: Callable[[Exception | None], None],
        reconnect_s: float,
    ) -> FakeDriver:
        self.deliver, self.closed = deliver, closed
        return self

    def open(self) -> None:
        pass

    def send(self, message: WorkerMessage) -> None:
        with self._changed:
            self.sent.append(message)
            self._changed.notify_all()
        if isinstance(message, Reported) and message.is_awaited and self.answers:
            self.deliver(Judged(message.lease, message.resource, message.lane))

    def heartbeat(self) -> None:
        with self._changed:
            self.heartbeats += 1
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        self.flushes_s.append(timeout_s)
        return True

    def close(self) -> None:
        self.is_closed = True

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait until something that the agent did made the condition true."""
        with self._changed:
            assert self._changed.wait_for(condition, DEADLINE_S), f"never came; so far: {self.sent}"

    def of(self, kind: type[M], number: int | None = None) -> list[M]:
        """All messages of a kind, of one lease."""
        return [m for m in self.sent if isinstance(m, kind) and number in (None, number_of(m))]

    def first(self, kind: type[M], number: int | None = None) -> M:
        """The first message of a kind, waited for."""
        self.wait(lambda: bool(self.of(kind, number)))
        return self.of(kind, number)[0]

    def train(self, number: int = 0, **stage: Any) -> None:
        """Assign work with one lane and one stage."""
        load = stage.pop("load", None)
        self.assign(number, [Lane((make_stage(number, **stage),), load)])

    def assign(self, number: int, lanes: list[Lane]) -> None:
        self.deliver(Assign(Work(lease(number), tuple(lanes))))

    def stop(self, number: int = 0, reason: str = "not worth it") -> None:
        self.deliver(StopTraining(lease(number), reason))

    def end(self, number: int = 0) -> TrainingEnded:
        """Return how a lease ended, without the times that it measured."""
        end: TrainingEnded = untimed(self.first(TrainingEnded, number))
        return end

    def values(self, number: int = 0) -> list[tuple[int, float]]:
        return [(m.resource, unspell(m.metrics["accuracy"])) for m in self.of(Reported, number)]

    def reports(self, number: int = 0) -> list[tuple[int, dict[str, float]]]:
        return [(m.resource, {n: unspell(v) for n, v in m.metrics.items()}) for m in self.of(Reported, number)]

    def text(self, number: int = 0) -> list[str]:
        return [line.text for batch in self.of(LogLines, number) for line in batch.lines]


def number_of(message: Any) -> int:
    """Number of the work that a message is about."""
    number: int = message.lease.number
    return number


def lease(number: int) -> Lease:
    return Lease(number, WORKER, 1)


def make_stage(number: int = 0, **changes: Any) -> Stage:
    stage = Stage(node=NODE, params={"lr": 0.5, "number": number}, trials=(TrialId(number),), seed=7)
    return msgspec.structs.replace(stage, **changes)


def make_config(trainable: Trainable, folder: Path, **changes: Any) -> WorkerConfig:
    store = LocalStore(folder)
    store.prepare()
    config = WorkerConfig(
        study="digits",
        metric="accuracy",
        bundle=cloudpickle.dumps(trainable),
        store=store,
        endpoint=None,
        worker=WORKER,
        epoch=1,
    )
    return msgspec.structs.replace(config, **changes)


@contextmanager
def agent(trainable: Trainable, folder: Path, **changes: Any) -> Iterator[FakeDriver]:
    """An agent that serves a fake driver, dismissed and gone at the end."""
    driver = FakeDriver()
    config = make_config(trainable, folder, **changes)
    attached = threading.Event()

    def run() -> None:
        try:
            driver.result = run_agent(config, connect=driver)
        except BaseException as error:
            driver.error = error
        attached.set()

    thread = threading.Thread(target=run)
    driver.open = attached.set  # type: ignore[method-assign]
    thread.start()
    assert attached.wait(DEADLINE_S)
    try:
        yield driver
    finally:
        driver.deliver(DismissWorker(WORKER, 1, "the test is over"))
        deadline = time.monotonic() + DEADLINE_S
        thread.join(deadline - time.monotonic())
    assert not thread.is_alive()
    assert driver.is_closed
    if driver.error is not None:
        raise driver.error


def committed(driver: FakeDriver, resource: int, node: NodeKey = NODE) -> CheckpointCommitted:
    """The commit of a checkpoint, waited for."""
    ref = CheckpointRef(node, resource)
    driver.wait(lambda: any(m.checkpoint == ref for m in driver.of(CheckpointCommitted)))
    return next(m for m in driver.of(CheckpointCommitted) if m.checkpoint == ref)


__all__ = ["NODE", "FakeDriver", "Outcome", "agent", "committed", "lease", "make_config", "make_stage"]
