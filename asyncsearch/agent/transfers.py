"""Commits and fetches of checkpoints, in their own threads, so that training continues meanwhile."""

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
"""Maximum number of concurrent commits; more would fill the local disk faster than the store empties it."""


class Uploaded(msgspec.Struct, frozen=True):
    """A commit is done, or has failed."""

    run: LaneRun
    checkpoint: CheckpointRef
    size_bytes: int = 0
    error: str = ""


class Fetched(msgspec.Struct, frozen=True):
    """A checkpoint was fetched, or could not be."""

    run: LaneRun
    path: Path | None
    error: str = ""


class _Thread:
    """One thread that runs tasks in order. It is a daemon: a store that hangs must not keep the process alive.

    Without a name there is no thread, and the caller runs each task at once.
    """

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, task: Callable[[], None]) -> None:
        """Run a task later. The first call starts the thread."""
        if self._name is None:
            task()
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._tasks.put(task)

    def close(self) -> None:
        """End the thread after the submitted tasks."""
        self._tasks.put(None)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()


class Transfers:
    """Commits saved checkpoints and fetches others, in two threads, each one transfer after the other."""

    def __init__(self, cache: CheckpointCache, post: Callable[[Uploaded | Fetched], None], *, in_threads: bool) -> None:
        """Prepare; the thread of each transfer passes its result to ``post``."""
        self._cache = cache
        self._post = post
        self._uploads = _Thread("uploads" if in_threads else None)
        self._fetches = _Thread("fetches" if in_threads else None)
        self.pending = 0
        """Number of commits whose end the owner has not subtracted yet."""

    @property
    def is_full(self) -> bool:
        """Whether the next checkpoint has to wait."""
        return self.pending >= MAX_PENDING

    def commit(self, run: LaneRun, checkpoint: CheckpointRef, staged: Path) -> None:
        """Commit a staged folder."""
        self.pending += 1
        self._uploads.submit(lambda: self._commit(run, checkpoint, staged))

    def discard(self, staged: Path) -> None:
        """Remove a staged folder that will not be committed."""
        self._uploads.submit(lambda: self._cache.discard(staged))

    def fetch(self, run: LaneRun, checkpoint: CheckpointRef) -> None:
        """Fetch a checkpoint, which stays open until ``release``."""
        self._fetches.submit(lambda: self._post(self._fetch(run, checkpoint)))

    def release(self, run: LaneRun) -> None:
        """Release a run's initial checkpoint."""
        self._fetches.submit(run.fetched.close)

    def close(self) -> None:
        """End the threads after the submitted transfers."""
        self._uploads.close()
        self._fetches.close()

    def _commit(self, run: LaneRun, checkpoint: CheckpointRef, staged: Path) -> None:
        size_bytes, error = 0, "its lease was refused"
        try:
            if not run.is_refused:
                size_bytes, error = self._cache.commit(checkpoint, staged), ""
        except Exception as raised:
            error = _in_words(raised)
        except KeyboardInterrupt:  # only where the user's own thread commits
            error = "it was interrupted"
            raise
        finally:
            if error:
                self._cache.discard(staged)
            self._post(Uploaded(run, checkpoint, size_bytes, error))

    def _fetch(self, run: LaneRun, checkpoint: CheckpointRef) -> Fetched:
        try:
            folder = run.fetched.enter_context(self._cache.fetch(checkpoint))
            path = folder / "checkpoint"
            if not path.exists():
                raise StoreError(f"Checkpoint {checkpoint} holds no file or folder named 'checkpoint'.")
            return Fetched(run, path)
        except Exception as error:
            with contextlib.suppress(Exception):
                run.fetched.close()
            return Fetched(run, None, _in_words(error))


def _in_words(error: Exception) -> str:
    return str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
