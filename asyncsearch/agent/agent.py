"""The agent: the half of a worker that never runs the user's code. It serves the driver over one stream.

Rule: one thread does all the work and waits only in ``_turn``. Other threads (the stream's, the transfers', the one
that waits for the runner's end) only put items into the mailbox.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from typing import Any, Generic, TypeVar

import msgspec

from asyncsearch.actions import DismissWorker
from asyncsearch.agent.agent_runner import MakeRunner
from asyncsearch.agent.config import Connect, DriverStream, WorkerConfig
from asyncsearch.agent.devices import devices_of
from asyncsearch.agent.runner_process import READ, DescriptorSelector, RunnerProcess
from asyncsearch.agent.runner_supervisor import RunnerSupervisor
from asyncsearch.agent.transfers import Fetched, Published, ShardDone, Transferred, Uploaded, Waiting
from asyncsearch.agent.workbench import Workbench
from asyncsearch.errors import InternalError
from asyncsearch.rpc.messages import DriverMessage, Endpoint, Hello, StoreTokens
from asyncsearch.runner.process.kernel_files import device_name
from asyncsearch.store.hdfs import tokens

T = TypeVar("T")


class Mailbox(Generic[T]):
    """A queue that wakes a selector."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: list[T] = []
        self._reading, self._writing = os.pipe()
        self._is_closed = False

    def fileno(self) -> int:
        """Return a descriptor that is readable while items wait."""
        return self._reading

    def put(self, item: T) -> None:
        """Add an item; any thread may call this. Items after ``close`` are dropped."""
        with self._lock:
            if self._is_closed:
                return
            self._items.append(item)
            if len(self._items) == 1:  # one byte wakes the reader for all items, so the pipe is never full
                os.write(self._writing, b".")

    def take(self) -> list[T]:
        """Return the items since the last call, in order, without waiting."""
        with self._lock:
            items, self._items = self._items, []
            if items:
                os.read(self._reading, 1)
            return items

    def close(self) -> None:
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._reading)
                os.close(self._writing)


_FLUSH_S = 5.0
"""Time limit for sending the last messages when the driver dismisses the worker."""


class _Closed(msgspec.Struct, frozen=True):
    """The stream has ended permanently."""

    error: Exception | None


class _Called(msgspec.Struct, frozen=True):
    """The launcher wants this worker to end now."""

    reason: str


_Item = DriverMessage | Transferred | RunnerProcess | _Closed | _Called


def run_agent(config: WorkerConfig, *, connect: Connect | None = None) -> str:
    """Serve the driver until it dismisses the worker or is lost, and return the reason for the end.

    Called in its own Spark task or process; the runner ends with that process, however that ends.

    Raises:
        DisconnectedError: the driver was never reached.
        ProtocolError: the driver refused this worker.
    """
    return Agent(config, connect).run()


class Agent:
    """One worker: passes the driver's messages to the workbench, and the workbench's messages to the driver."""

    def __init__(
        self, config: WorkerConfig, connect: Connect | None = None, runner: MakeRunner = RunnerSupervisor
    ) -> None:
        self._config = config
        self._inbox: Mailbox[_Item] = Mailbox()
        self._watch = DescriptorSelector()
        hello = Hello(
            config.worker,
            config.epoch,
            uuid.uuid4().hex,
            socket.gethostname(),
            os.getpid(),
            device=device_name(devices_of(os.environ, config.gpus)),
        )
        self._stream = (connect or _connect)(
            config.endpoint,
            hello,
            deliver=self._inbox.put,
            closed=lambda error: self._inbox.put(_Closed(error)),
            reconnect_s=config.reconnect_s,
        )
        self._runner = runner(config, self._watch, self._stream, exited=self._inbox.put)
        self._bench = Workbench(config, self._runner, self._stream.send, self._inbox.put)
        self._runner.connect(self._bench.messages.on_message, self._bench.lanes.on_death)
        self._heartbeat_due = 0.0
        self._dismissal: str | None = None
        """Reason to end as soon as all work is done. None while it is not dismissed."""
        self._flush_s = _FLUSH_S
        self._end: str | None = None
        """Reason to end now. None while it continues."""

    def end(self, reason: str) -> None:
        """Have ``run`` return this reason, whatever trains; any thread may call this."""
        self._inbox.put(_Called(reason))

    def run(self) -> str:
        self._watch.set(self._inbox, READ, self._on_inbox)
        try:
            self._runner.start()  # it loads the trainable while the stream attaches
            self._stream.open()
            self._heartbeat_due = time.monotonic() + self._config.heartbeat_s
            while self._end is None:
                self._turn()
            self._runner.close()
            self._bench.close()
            self._stream.flush(self._flush_s)
            return self._end
        finally:
            self._runner.close()
            self._bench.close()
            self._stream.close()
            self._watch.close()
            self._inbox.close()
            tokens.drop()  # a Python worker of Spark serves other jobs after this one

    def _turn(self) -> None:
        all_due = (self._heartbeat_due, self._bench.checkpoints.due, self._runner.due)
        self._watch.wait(max(0.0, min(due for due in all_due if due is not None) - time.monotonic()))
        now = time.monotonic()
        self._bench.checkpoints.tick(now)
        self._runner.tick(now)
        if now >= self._heartbeat_due:
            self._heartbeat_due = now + self._config.heartbeat_s
            self._stream.heartbeat()
            self._runner.look_at_memory()
        if self._dismissal is not None and self._bench.is_done and self._end is None:
            self._end = f"dismissed: {self._dismissal}"

    def _on_inbox(self, _mask: int) -> None:
        for item in self._inbox.take():
            self._handle(item)

    def _handle(self, item: _Item) -> None:
        match item:
            case StoreTokens():
                tokens.use(item.tokens)
            case DismissWorker():
                self._dismiss(item)
            case RunnerProcess():
                self._runner.on_exit(item)
            case _Closed(error=error):
                self._end = "disconnected" if error is None else f"disconnected: {error}"
            case _Called(reason=reason):
                self._end, self._flush_s = reason, 0.0
            case Uploaded() | Published() | ShardDone() | Fetched() | Waiting():
                self._bench.lanes.on_transfer(item)
            case _:
                self._bench.obey(item)

    def _dismiss(self, order: DismissWorker) -> None:
        self._dismissal = self._dismissal or order.reason
        if order.is_unheard:
            self._flush_s = 0.0
        self._runner.restarts = False
        self._bench.dismiss(order.reason)


def _connect(endpoint: Endpoint | None, hello: Hello, **options: Any) -> DriverStream:
    from asyncsearch.rpc.client import Connection

    if endpoint is None:
        raise InternalError(f"{hello} has no endpoint: give it one, or give run_agent(connect=...).")
    return Connection(endpoint, hello, **options)
