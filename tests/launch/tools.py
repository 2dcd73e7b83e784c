"""What the tests of all backends share: a configuration, a record of ends, and words from another process."""

from __future__ import annotations

import os
import queue
from collections.abc import Sequence
from pathlib import Path

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.events import Reported
from asyncsearch.ids import WorkerId
from asyncsearch.launch.inline_worker import InlineWorker
from asyncsearch.rpc.messages import Endpoint, Judged, WorkerMessage
from asyncsearch.store import open_store

TOKEN = "a-token-that-nobody-may-see"
PATIENCE_S = 300.0
"""How long a test waits for what must come; it fails after that."""


def config_for(folder: Path, bundle: bytes = b"") -> WorkerConfig:
    return WorkerConfig(
        study="digits",
        metric="accuracy",
        bundle=bundle,
        store=open_store(folder),
        endpoint=Endpoint("127.0.0.1:1", b"certificate", TOKEN),
        worker=WorkerId(0),
        epoch=1,
    )


class Ends:
    """Takes what a launcher tells by ``ended``."""

    def __init__(self) -> None:
        self._told: queue.SimpleQueue[tuple[int, int, str]] = queue.SimpleQueue()

    def __call__(self, worker: WorkerId, epoch: int, reason: str) -> None:
        self._told.put((worker, epoch, reason))

    def next(self) -> tuple[int, int, str]:
        """Wait for the next one."""
        return self._told.get(timeout=PATIENCE_S)

    def reason(self) -> str:
        """Wait for the next one, and return its reason."""
        return self.next()[2]

    @property
    def is_empty(self) -> bool:
        return self._told.empty()


class Line:
    """A named pipe on which another process says something, and whose end tells that it is gone."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        os.mkfifo(path)
        # With a writer of our own, opening does not wait; it is closed as soon as the other process was heard.
        self._reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(self._reading, True)
        self._writing = os.open(path, os.O_WRONLY)

    def hear(self) -> str:
        """Wait for the other process to say something."""
        words = os.read(self._reading, 1000).decode()
        os.close(self._writing)
        return words

    def await_end(self) -> None:
        """Wait until no process holds the other end any more."""
        while os.read(self._reading, 1000):
            pass
        os.close(self._reading)


class Answers:
    """Answers each report that an inline worker awaits, once, by nothing."""

    def __init__(self, said: Sequence[WorkerMessage]) -> None:
        self._said, self._read = said, 0

    def give(self, worker: InlineWorker) -> None:
        """Answer what was said since the last call."""
        news, self._read = self._said[self._read :], len(self._said)
        for message in news:
            if isinstance(message, Reported) and message.is_awaited:
                worker.take(Judged(message.lease, message.resource, message.lane))
