"""The backend of a driver that runs as a task: it starts no worker, but gives each launch to a task that has come.

Rule: one thread owns the launches and the tasks; the driver's threads and those of the connections put into its queue.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable

import msgspec

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.errors import InternalError, StoreError
from asyncsearch.ids import WorkerId
from asyncsearch.launch.base_launcher import TOO_LATE, ConfigFor, Launcher, LaunchKey, OnWorkerEnded, Preflight
from asyncsearch.launch.remote.meeting import BUNDLE, LAUNCHES, Assignment, MeetingLine, MeetingPlace, launch_file
from asyncsearch.launch.value_pickler import dumps
from asyncsearch.store.base_store import Store

LOST = "its task is gone: it was killed, or its executor was lost"
_STORE_AGAIN_S = 1.0
_REASON = msgspec.json.Decoder(str)


class MeetingLauncher(Launcher):
    """Gives launches to the tasks that meet the driver."""

    name = "spark-cluster"

    def __init__(self, store: Store, found: Preflight, attempt: str) -> None:
        """Prepare a launcher that does not listen yet.

        Args:
            store: of the study; workers' tasks read it.
            found: what the client's check has found, with the address of this task.
            attempt: names this driver.
        """
        self._store, self._found, self._attempt = store, found, attempt
        self._place: MeetingPlace | None = None
        self._config_for: ConfigFor | None = None
        self._ended: OnWorkerEnded = lambda *_: None
        self._inbox: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._is_stopping = False
        self._give_up_at: float | None = None
        self._waiting: deque[LaunchKey] = deque()
        """The launches for which no task has come yet."""
        self._idle: list[MeetingLine] = []
        """The tasks for which there is no launch yet."""
        self._serving: dict[LaunchKey, MeetingLine] = {}
        self._has_bundle = False
        """Whether the trainable, which all launches share, is in the store."""

    def check(self, parallelism: int | None) -> Preflight:
        workers = min(self._found.parallelism, parallelism or self._found.parallelism)
        return msgspec.structs.replace(self._found, parallelism=workers)

    def start(self, config_for: ConfigFor, ended: OnWorkerEnded) -> None:
        self._config_for, self._ended = config_for, ended
        place = MeetingPlace(self._found.host, self._found.bind, self._attempt, self._arrived)
        self._store.remove_tree(LAUNCHES)
        place.open(self._store)
        self._place = place
        threading.Thread(target=self._own, name="asyncsearch-launches", daemon=True).start()

    def launch(self, worker: WorkerId, epoch: int) -> None:
        if self._config_for is None:
            raise InternalError("launch() comes after start()")
        key, config = (worker, epoch), self._config_for(worker, epoch)
        if self._stopped.is_set():
            self._ended(*key, TOO_LATE)
            return
        self._inbox.put(lambda: self._offer(key, config))

    def kill(self, worker: WorkerId, epoch: int) -> None:
        self._inbox.put(lambda: self._let_go((worker, epoch)))

    def stop(self, grace_s: float) -> None:
        if self._place is None:
            return
        self._inbox.put(lambda: self._begin_to_stop(time.monotonic() + grace_s))
        self._stopped.wait()
        self._place.close()

    # Methods of the owner's thread.

    def _own(self) -> None:
        while self._give_up_at is None or (self._serving and time.monotonic() < self._give_up_at):
            try:
                self._next()()
            except queue.Empty:
                continue
        for key, line in self._serving.items():
            line.close()
            self._ended(*key, "it did not end in time")
        self._serving.clear()
        self._stopped.set()
        # A task that has come meanwhile would wait for ever: who comes from now on sees that it is over.
        with contextlib.suppress(queue.Empty):
            while True:
                self._inbox.get_nowait()()

    def _next(self) -> Callable[[], object]:
        timeout_s = None if self._give_up_at is None else max(0.0, self._give_up_at - time.monotonic())
        return self._inbox.get(timeout=timeout_s)

    def _offer(self, key: LaunchKey, config: WorkerConfig) -> None:
        if self._is_stopping:
            self._ended(*key, TOO_LATE)
            return
        try:
            if not self._has_bundle:
                self._store.write(BUNDLE, config.bundle)
                self._has_bundle = True
            self._store.write(launch_file(*key), dumps(without_keys(config)))
        except StoreError:
            # The driver itself waits for its store, or ends for it.
            timer = threading.Timer(_STORE_AGAIN_S, lambda: self._inbox.put(lambda: self._offer(key, config)))
            timer.daemon = True
            timer.start()
            return
        self._waiting.append(key)
        self._match()

    def _match(self) -> None:
        while self._waiting and self._idle:
            line = self._idle.pop(0)
            worker, epoch = key = self._waiting[0]
            with contextlib.suppress(OSError):  # it is gone, as its own thread says
                line.send(Assignment(worker, epoch))
                self._serving[key] = line
                self._waiting.popleft()

    def _come(self, line: MeetingLine) -> None:
        if self._is_stopping:
            _send_home(line)
            return
        self._idle.append(line)
        self._match()

    def _go(self, line: MeetingLine, reason: str) -> None:
        if line in self._idle:
            self._idle.remove(line)
        for key in [key for key, served in self._serving.items() if served is line]:
            del self._serving[key]
            self._ended(*key, reason)
            with contextlib.suppress(StoreError):
                self._store.remove(launch_file(*key))

    def _let_go(self, key: LaunchKey) -> None:
        if key in self._waiting:
            self._waiting.remove(key)
            self._ended(*key, "it was ended by the driver")
        if key in self._serving:
            self._serving[key].close()  # its task ends the agent, and this line's thread says so here

    def _begin_to_stop(self, give_up_at: float) -> None:
        self._is_stopping, self._give_up_at = True, give_up_at
        while self._waiting:
            self._ended(*self._waiting.popleft(), TOO_LATE)
        while self._idle:
            _send_home(self._idle.pop())

    # In the thread of a connection.

    def _arrived(self, line: MeetingLine) -> None:
        self._inbox.put(lambda: self._come(line))
        if self._stopped.is_set():
            _send_home(line)
        reason = ""
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            reason = _REASON.decode(line.receive() or b'""')
        line.close()
        self._inbox.put(lambda: self._go(line, reason or LOST))


def without_keys(config: WorkerConfig) -> WorkerConfig:
    """Return a configuration as a file of the store may hold it, without the trainable and the keys of stores."""
    dirs = None if config.dirs is None else config.dirs.without_keys()
    return msgspec.structs.replace(config, bundle=b"", store=config.store.without_keys(), dirs=dirs)


def with_keys(config: WorkerConfig, store: Store, bundle: bytes) -> WorkerConfig:
    """Return a configuration as it was, in a task that has the store of the study."""
    dirs = None if config.dirs is None else config.dirs.with_keys_of(store)
    return msgspec.structs.replace(config, bundle=bundle, store=config.store.with_keys_of(store), dirs=dirs)


def _send_home(line: MeetingLine) -> None:
    with contextlib.suppress(OSError):
        line.send(Assignment(is_over=True))
