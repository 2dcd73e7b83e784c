"""Checkpoints on their way: commits and fetches in threads of their own, so that training goes on meanwhile."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from asyncsearch.agent.checkpoint_cache import CheckpointCache
from asyncsearch.agent.lane_run import LaneRun
from asyncsearch.errors import StoreError
from asyncsearch.ids import CheckpointRef

MAX_PENDING = 2
"""Commits at one time; more would fill the local disk faster than the store takes it."""


class Uploaded(msgspec.Struct, frozen=True):
    """A commit is done, or has failed."""

    attempt: LaneRun
    checkpoint: CheckpointRef
    size_bytes: int = 0
    error: str = ""


class Fetched(msgspec.Struct, frozen=True):
    """A checkpoint is here, or could not be had."""

    attempt: LaneRun
    path: Path | None
    error: str = ""


class _Thread:
    """One thread that does one thing after the other. It is a daemon: a store that hangs must not keep the process.

    Without a name there is no thread, and the caller does each thing at once.
    """

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, task: Callable[[], None]) -> None:
        """Do something later. The first call starts the thread."""
        if self._name is None:
            task()
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._tasks.put(task)

    def close(self) -> None:
        """End after what was submitted before."""
        self._tasks.put(None)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()


class Uploads:
    """Makes saved checkpoints durable, one after the other."""

    def __init__(self, shelf: CheckpointCache, done: Callable[[Uploaded], None], *, in_thread: bool) -> None:
        self._shelf = shelf
        self._done = done
        self._thread = _Thread("uploads" if in_thread else None)
        self._pending = 0

    @property
    def pending(self) -> int:
        """Commits that ``settle`` was not called for."""
        return self._pending

    @property
    def is_full(self) -> bool:
        """Whether a further checkpoint has to wait."""
        return self._pending >= MAX_PENDING

    def submit(self, attempt: LaneRun, checkpoint: CheckpointRef, staged: Path) -> None:
        """Commit a staged folder; ``done`` is called in the thread."""
        self._pending += 1
        self._thread.submit(lambda: self._commit(attempt, checkpoint, staged))

    def settle(self) -> None:
        """Count one commit as done."""
        self._pending -= 1

    def discard(self, staged: Path) -> None:
        """Remove a staged folder that will not be committed."""
        self._thread.submit(lambda: self._shelf.discard(staged))

    def close(self) -> None:
        """End after what was submitted before."""
        self._thread.close()

    def _commit(self, attempt: LaneRun, checkpoint: CheckpointRef, staged: Path) -> None:
        size_bytes, reason = 0, "its lease was refused"
        try:
            if not attempt.is_refused:
                size_bytes, reason = self._shelf.commit(checkpoint, staged), ""
        except Exception as error:
            reason = _in_words(error)
        except KeyboardInterrupt:  # only where the user's own thread commits
            reason = "it was interrupted"
            raise
        finally:
            if reason:
                self._shelf.discard(staged)
            self._done(Uploaded(attempt, checkpoint, size_bytes, reason))


class Fetches:
    """Brings checkpoints to this machine and lets them go."""

    def __init__(self, shelf: CheckpointCache, done: Callable[[Fetched], None], *, in_thread: bool) -> None:
        self._shelf = shelf
        self._done = done
        self._thread = _Thread("fetches" if in_thread else None)

    def submit(self, attempt: LaneRun, checkpoint: CheckpointRef) -> None:
        """Fetch a checkpoint; ``done`` is called in the thread. It stays until ``release``."""
        self._thread.submit(lambda: self._done(self._fetch(attempt, checkpoint)))

    def release(self, attempt: LaneRun) -> None:
        """Let the attempt's checkpoint go."""
        self._thread.submit(attempt.fetched.close)

    def close(self) -> None:
        """End after what was submitted before."""
        self._thread.close()

    def _fetch(self, attempt: LaneRun, checkpoint: CheckpointRef) -> Fetched:
        try:
            folder = attempt.fetched.enter_context(self._shelf.fetch(checkpoint))
            path = folder / "checkpoint"
            if not path.exists():
                raise StoreError(f"Checkpoint {checkpoint} holds no file or folder named 'checkpoint'.")
            return Fetched(attempt, path)
        except Exception as error:
            with contextlib.suppress(Exception):
                attempt.fetched.close()
            return Fetched(attempt, None, _in_words(error))


def _in_words(error: Exception) -> str:
    return str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
