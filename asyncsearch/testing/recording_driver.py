"""A driver that decides nothing and keeps the messages of its workers, and the training that they get."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from asyncsearch.actions import Assign
from asyncsearch.agent.config import WorkerConfig
from asyncsearch.events import Reported, TrainingEnded
from asyncsearch.ids import Lease, NodeKey, TrialId, WorkerId
from asyncsearch.launch.base_launcher import Launcher, Preflight
from asyncsearch.launch.value_pickler import dumps
from asyncsearch.rpc.auth import make_identity
from asyncsearch.rpc.messages import DriverMessage, Endpoint, Hello, WorkerMessage
from asyncsearch.rpc.server import SearchServer
from asyncsearch.store import open_store
from asyncsearch.trainable import TrialContext
from asyncsearch.work import Lane, Stage, Work

W0, W1 = WorkerId(0), WorkerId(1)
Launch = tuple[WorkerId, int]
"""A worker and the epoch of its launch."""


def train(trial: TrialContext) -> None:
    """Hold a pipe open, and report whether the token can be seen, up to ``units`` or until it is stopped."""
    token = trial.params["token"]
    with open(trial.params["pipe"], "w") as pipe:
        pipe.write("here")
        pipe.flush()
        for unit in itertools.count(1):
            trial.report(seen=float(_is_seen(token) if unit == 1 else 0), resource=unit)
            if unit == trial.params["units"]:
                return
            time.sleep(0.01)  # else an endless trial would fill the driver's memory


def _is_seen(token: str) -> bool:
    """Return whether a token is in the environment or the arguments of this process or its parent."""
    import psutil

    texts = [*sys.argv, *os.environ.values()]
    with suppress(psutil.Error):
        texts += psutil.Process(os.getppid()).cmdline()
    return any(token in text for text in texts)


class Pipe:
    """A named pipe whose end tells that nobody holds its other side any more."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        os.mkfifo(path)
        # With a writer of our own, nobody waits for the other side; it is closed when the trial has begun.
        self._reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._writing = os.open(path, os.O_WRONLY)

    def begin(self) -> None:
        """Take the trial for begun: it holds the pipe."""
        os.close(self._writing)

    def is_at_end(self) -> bool:
        """Return whether no process holds the other side."""
        with suppress(BlockingIOError):
            while data := os.read(self._reading, 1000):
                del data
            return True
        return False


class RecordingDriver:
    """One run of a launcher, with a driver that decides nothing and keeps all messages."""

    def __init__(
        self, launcher: Launcher, folder: Path, parallelism: int, patience_s: float, end_patience_s: float
    ) -> None:
        self.launcher = launcher
        self.preflight: Preflight = launcher.check(parallelism)
        self.attachments: list[Launch] = []
        self.messages: list[tuple[Launch, WorkerMessage]] = []
        self.ends: list[tuple[WorkerId, int, str]] = []
        self.is_local = launcher.transport is not None
        """Whether workers are in this process, where nothing can be killed."""
        self.reconnect_s = 10.0
        self.endpoint: Endpoint | None = None
        self._folder, self._patience_s, self._end_patience_s = folder, patience_s, end_patience_s
        self._store = open_store(folder / "store")
        self._store.prepare()
        self._identity = make_identity()
        self._leases = itertools.count()
        self._changed = threading.Condition()
        self._over = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._server = SearchServer(self, self._identity)
        self._transport = launcher.transport or self._server
        self._threads: list[threading.Thread] = []
        self._in_thread(self._loop.run_forever)
        if not self.is_local:
            starting = self._server.start(self.preflight.bind, self.preflight.port)
            port = asyncio.run_coroutine_threadsafe(starting, self._loop).result()
            self.endpoint = self._identity.endpoint(f"{self.preflight.host}:{port}")

    def begin(self) -> None:
        """Start the launcher."""
        self.launcher.start(self._config, self._ended)
        if self.is_local:
            self._in_thread(self._train_here)

    def attach(self, worker: WorkerId = W0, epoch: int = 1) -> None:
        """Launch a worker, and wait until it has attached."""
        before = len(self.attachments)
        self.launcher.launch(worker, epoch)
        self._wait_for_launch(
            worker, epoch, lambda: len(self.attachments) > before, f"launch({worker}, {epoch}): no worker attached"
        )
        found = self.attachments[-1]
        assert found == (worker, epoch), f"launch({worker}, {epoch}): worker {found[0]} attached under epoch {found[1]}"

    def assign(self, worker: WorkerId = W0, epoch: int = 1, units: int = 0) -> tuple[Lease, Pipe]:
        """Have a worker train, without end where ``units`` is 0, and wait until its trial runs."""
        number = next(self._leases)
        lease, pipe = Lease(number, worker, epoch), Pipe(self._folder / f"pipe-{id(self)}-{number}")
        params = {"pipe": pipe.path, "units": units, "token": self._identity.token}
        stage = Stage(NodeKey("0" * 32), params, (TrialId(number),), seed=0)
        self.send(worker, epoch, Assign(Work(lease, (Lane((stage,)),))))
        words = f"worker {worker} does not train what it was assigned"
        self._wait_for_launch(worker, epoch, lambda: bool(self.of(Reported, lease)), words)
        pipe.begin()
        return lease, pipe

    def of(self, kind: type[Reported] | type[TrainingEnded], lease: Lease) -> list[WorkerMessage]:
        """Return the messages of one kind under a lease."""
        return [sent for _, sent in self.messages if isinstance(sent, kind) and sent.lease == lease]

    def end_of(self, worker: WorkerId, epoch: int) -> str:
        """Wait for the end of a launch, and return its reason."""
        words = f"the end of worker {worker}, epoch {epoch} is not told"
        self.wait(lambda: bool(self._reasons(worker, epoch)), words, self._end_patience_s)
        return self._reasons(worker, epoch)[0]

    def require_gone(self, pipe: Pipe) -> None:
        """Wait until no process of a trial is left."""
        self.wait(pipe.is_at_end, "a trial's process is left")

    def wait(self, condition: Callable[[], bool], words: str, patience_s: float | None = None) -> None:
        """Wait until something is so; else fail with these words."""
        patience_s = self._patience_s if patience_s is None else patience_s
        deadline = time.monotonic() + patience_s
        with self._changed:
            while not condition():
                assert time.monotonic() < deadline, f"{words} ({patience_s:g} s)"
                self._changed.wait(0.02)  # the end of a pipe notifies nobody

    def send(self, worker: WorkerId, epoch: int, message: DriverMessage) -> None:
        """Send a worker something."""
        self._loop.call_soon_threadsafe(self._transport.send, worker, epoch, message)

    def close(self) -> None:
        """End whatever the law left."""
        self._over.set()
        for worker, epoch in self.attachments:
            self.launcher.kill(worker, epoch)
        self.launcher.wake()
        if self.is_local:  # as a study does: ``stop`` comes after ``train_here`` has returned
            self._threads[-1].join(self._patience_s)
        with ExitStack() as ends:
            ends.callback(self._loop.call_soon_threadsafe, self._loop.stop)
            if not self.is_local:
                ends.callback(lambda: asyncio.run_coroutine_threadsafe(self._server.stop(0.2), self._loop).result())
            ends.callback(self.launcher.stop, 0.0)
        for thread in self._threads:
            thread.join(self._patience_s)
        self._loop.close()

    # Called by the server, or by the workers of this process.

    def attached(self, hello: Hello, peer: str) -> None:
        """See ``rpc.server.Handler``."""
        del peer
        self._note(lambda: self.attachments.append((hello.worker, hello.epoch)))

    def received(self, worker: WorkerId, epoch: int, number: int, message: WorkerMessage) -> None:
        """See ``rpc.server.Handler``."""
        self._note(lambda: self.messages.append(((worker, epoch), message)))
        if number:
            self._transport.acknowledge(worker, epoch, number)

    def detached(self, worker: WorkerId, epoch: int) -> None:
        """See ``rpc.server.Handler``."""

    def _in_thread(self, target: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=target, daemon=True))
        self._threads[-1].start()

    def _train_here(self) -> None:
        def post(worker: WorkerId, epoch: int, number: int, message: WorkerMessage) -> None:
            if isinstance(message, Hello):
                self.attached(message, "")
            else:
                self.received(worker, epoch, number, message)

        self.launcher.train_here(post, self._over.is_set, lambda: None)

    def _ended(self, worker: WorkerId, epoch: int, reason: str) -> None:
        self._note(lambda: self.ends.append((worker, epoch, reason)))

    def _wait_for_launch(self, worker: WorkerId, epoch: int, condition: Callable[[], bool], words: str) -> None:
        """Wait for the effect of a launch; fail at once if its end is told instead."""
        self.wait(lambda: condition() or bool(self._reasons(worker, epoch)), words)
        assert condition(), f"{words}, and its end is told: {self._reasons(worker, epoch)[0]}"

    def _reasons(self, worker: WorkerId, epoch: int) -> list[str]:
        return [reason for one, number, reason in self.ends if (one, number) == (worker, epoch)]

    def _note(self, note: Callable[[], None]) -> None:
        with self._changed:
            note()
            self._changed.notify_all()

    def _config(self, worker: WorkerId, epoch: int) -> WorkerConfig:
        return WorkerConfig(
            study="laws",
            metric="seen",
            bundle=dumps(train),
            store=self._store,
            endpoint=self.endpoint,
            worker=worker,
            epoch=epoch,
            heartbeat_s=0.2,
            reconnect_s=self.reconnect_s,
            stop_grace_s=0.2,
        )
