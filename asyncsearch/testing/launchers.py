"""The laws of every launcher, for those who write their own.

class TestMine(LauncherTests):
    def make(self) -> Launcher:
        return MyLauncher()

Each law starts real workers, and plays the driver that they attach to. They must run on this machine: that a process is
gone is seen by the end of a named pipe that it wrote to.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from asyncsearch.actions import Assign, DismissWorker
from asyncsearch.agent.config import WorkerConfig
from asyncsearch.events import Outcome, Reported, TrainingEnded
from asyncsearch.ids import Lease, NodeKey, TrialId, WorkerId
from asyncsearch.launch.base_launcher import Launcher, Preflight
from asyncsearch.launch.value_pickler import dumps
from asyncsearch.rpc.auth import make_identity
from asyncsearch.rpc.messages import DriverMessage, Endpoint, Hello, WorkerMessage
from asyncsearch.rpc.server import SearchServer
from asyncsearch.store import open_store
from asyncsearch.testing.base_suite import Suite
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
    """One run of a launcher, with a driver that decides nothing and keeps what it is told."""

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
        """Return what was told of a lease."""
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

    # What the server, or the workers of this process, call.

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
        """Wait for what a launch must do; fail at once if its end is told instead."""
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


class LauncherTests(Suite):
    """Laws that hold for any launcher; ``make`` gives the one to try. They take a second or two each."""

    patience_s = 60.0
    """How long what must come may take."""
    end_patience_s = 60.0
    """How long it may take until the end of a launch is told."""

    def make(self) -> Launcher:
        """Return a new launcher, each time the same."""
        raise NotImplementedError(f"{type(self).__name__} must have a method make(self) that returns a new launcher.")

    @contextmanager
    def driver(self, parallelism: int = 1, launcher: Launcher | None = None) -> Iterator[RecordingDriver]:
        """Begin a run, and end it after the law."""
        with tempfile.TemporaryDirectory(prefix="asyncsearch-laws-") as folder:
            patience = (self.patience_s, self.end_patience_s)
            made = RecordingDriver(launcher or self.make(), Path(folder), parallelism, *patience)
            try:
                made.begin()
                yield made
            finally:
                made.close()

    def test_check_says_how_many_workers_there_will_be_and_warns_in_sentences(self) -> None:
        launcher = self.make()
        try:
            for wanted in (None, 1):
                found = launcher.check(wanted)
                assert found.parallelism >= 1, f"check({wanted}) promises {found.parallelism} workers"
                assert found.cpu_threads >= 1, f"check({wanted}) gives each worker {found.cpu_threads} cores"
                assert wanted in (None, found.parallelism), f"check({wanted}) promises {found.parallelism} workers"
                for warning in found.warnings:
                    assert len(warning.split()) >= 5, f"the warning {warning!r} is no sentence"
                    assert warning.endswith("."), f"the warning {warning!r} is no sentence"
        finally:
            launcher.stop(0.0)
            launcher.stop(0.0)  # it may come twice, also where nothing was started

    def test_its_name_is_one_word(self) -> None:
        name = self.make().name
        assert len(name.split()) == 1, f"its name is {name!r}"

    def test_a_launch_attaches_under_its_own_worker_and_epoch_and_trains(self) -> None:
        with self.driver() as driver:
            driver.attach(W0, 3)
            lease, pipe = driver.assign(W0, 3, units=2)
            driver.wait(lambda: bool(driver.of(TrainingEnded, lease)), "a training does not end")
            [end] = driver.of(TrainingEnded, lease)
            assert isinstance(end, TrainingEnded)
            assert (end.outcome, end.resource) == (Outcome.RETURNED, 2), f"the training ended so: {end}"
            driver.require_gone(pipe)

    def test_workers_train_side_by_side(self) -> None:
        with self.driver(parallelism=2) as driver:
            for worker in range(driver.preflight.parallelism):
                driver.attach(WorkerId(worker))
            for worker in range(driver.preflight.parallelism):
                driver.assign(WorkerId(worker))

    def test_the_token_is_neither_in_arguments_nor_in_the_environment(self) -> None:
        with self.driver() as driver:
            driver.attach()
            lease, _ = driver.assign(units=1)
            [first] = driver.of(Reported, lease)
            assert isinstance(first, Reported)
            assert first.metrics["seen"] == 0, "the token can be seen in the arguments or the environment of a process"

    def test_the_end_of_a_worker_that_is_dismissed_is_reported_once_with_a_reason(self) -> None:
        with self.driver() as driver:
            driver.attach()
            driver.send(W0, 1, DismissWorker(W0, 1, "nothing is left for it"))
            reason = driver.end_of(W0, 1)
            assert reason.strip(), "the end of a worker is told without a reason"
            driver.attach(W0, 2)
        self._require_one_end_each(driver)

    def test_kill_ends_a_worker_and_its_trial_and_that_is_reported_once(self) -> None:
        with self.driver() as driver:
            driver.attach()
            _, pipe = driver.assign()
            driver.launcher.kill(W0, 1)
            assert driver.end_of(W0, 1).strip(), "the end of a worker is told without a reason"
            driver.require_gone(pipe)
        self._require_one_end_each(driver)

    def test_kill_of_another_launch_ends_nobody(self) -> None:
        with self.driver() as driver:
            driver.attach(W0, 2)
            driver.launcher.kill(W0, 1)
            driver.launcher.kill(W1, 2)
            driver.assign(W0, 2)
            assert driver.ends == [], f"kill of another launch ended {driver.ends}"

    def test_a_slot_is_launched_again_after_its_worker_was_lost(self) -> None:
        with self.driver() as driver:
            for epoch in (1, 2):
                driver.attach(W0, epoch)
                driver.assign(W0, epoch)
                driver.launcher.kill(W0, epoch)
                driver.end_of(W0, epoch)
        self._require_one_end_each(driver)

    def test_a_worker_that_cannot_attach_is_reported_and_launch_raises_nothing(self) -> None:
        with self.driver() as driver:
            if driver.endpoint is None:
                return
            driver.endpoint = msgspec.structs.replace(driver.endpoint, address="127.0.0.1:9", spare_port=0)
            driver.reconnect_s = 0.2
            driver.launcher.launch(W0, 1)
            assert driver.end_of(W0, 1).strip(), "the end of a worker is told without a reason"

    def test_stop_ends_what_does_not_end_by_itself_and_leaves_nothing_behind(self) -> None:
        with self.driver() as driver:
            if driver.is_local:  # nothing trains there when ``train_here`` has returned
                return
            driver.attach()
            _, pipe = driver.assign()
            driver.launcher.stop(0.0)
            assert [end[:2] for end in driver.ends] == [(W0, 1)], "stop returned before the end of a worker was told"
            driver.require_gone(pipe)

    def test_stop_waits_for_workers_that_end_by_themselves(self) -> None:
        with self.driver() as driver:
            if driver.is_local:
                return
            driver.attach()
            driver.send(W0, 1, DismissWorker(W0, 1, "nothing is left for it"))
            driver.launcher.stop(self.patience_s)
            assert "nothing is left for it" in driver.end_of(W0, 1), "a worker was ended in its time of grace"

    def test_a_launch_after_stop_starts_nothing_and_is_reported(self) -> None:
        with self.driver() as driver:
            driver.launcher.stop(0.0)
            driver.launcher.launch(W0, 1)
            driver.end_of(W0, 1)
            assert driver.attachments == [], "a worker was started after stop"

    def test_it_serves_one_run_after_the_other(self) -> None:
        launcher = self.make()
        for _ in range(2):
            with self.driver(launcher=launcher) as driver:
                driver.attach()

    @staticmethod
    def _require_one_end_each(driver: RecordingDriver) -> None:
        launches = [end[:2] for end in driver.ends]
        assert len(launches) == len(set(launches)), f"an end is told more than once: {driver.ends}"
