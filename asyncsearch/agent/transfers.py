"""Commits and fetches of checkpoints, in their own threads, so that training continues meanwhile.

Rule: what a store cannot do now is tried again until it can, or until the run gives up waiting. The driver knows how
long that may take; what is wrong with a checkpoint itself is told at once.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from asyncsearch.agent.checkpoint_cache import CheckpointCache
from asyncsearch.agent.lane_run import LaneRun
from asyncsearch.agent.trial_folders import TrialFolders, warn
from asyncsearch.errors import CheckpointError, StoreError, UsageError, may_pass
from asyncsearch.ids import CheckpointRef
from asyncsearch.rpc.redelivery import Backoff
from asyncsearch.runner.protocol import ShardAnswer
from asyncsearch.store.base_store import Store
from asyncsearch.store.manifest import PackedWith, Shards, packed_with_beside

MAX_PENDING = 2
"""Maximum number of concurrent commits; more would fill the local disk faster than the store empties it."""


T = TypeVar("T")


class Uploaded(msgspec.Struct, frozen=True):
    """A commit is done, or has failed."""

    run: LaneRun
    checkpoint: CheckpointRef
    size_bytes: int = 0
    error: str = ""
    error_kind: str = ""
    """As in ``CheckpointFailed``."""


class Waiting(msgspec.Struct, frozen=True):
    """A transfer waits for the store, or no longer does."""

    transfer: str
    """``commit``, ``fetch``, ``folder``, or what waits for this machine's disk: ``save`` or ``copy``."""
    error: str = ""
    """The last answer of the store. Empty if it waits no longer."""


class ShardDone(msgspec.Struct, frozen=True):
    """A place for shards was given, or a shard is durable; or neither could be."""

    run: LaneRun
    stage: int
    resource: int
    answer: ShardAnswer
    is_place: bool


class Published(msgspec.Struct, frozen=True):
    """The folder of a training that is over is stored, or could not be."""

    run: LaneRun


class Fetched(msgspec.Struct, frozen=True):
    """A checkpoint was fetched, or could not be."""

    run: LaneRun
    path: Path | None
    error: str = ""


Transferred = Uploaded | Published | ShardDone | Fetched | Waiting
"""The results of transfers."""


class Transfers:
    """Commits saved checkpoints and fetches others, each one transfer after the other."""

    def __init__(
        self,
        store: Store,
        cache: CheckpointCache,
        post: Callable[[Transferred], None],
        tasks: TaskQueue | None,
        is_alone: bool = False,
    ) -> None:
        """Prepare.

        Args:
            store: the durable home of the checkpoints.
            cache: commits to it and fetches from it.
            post: the thread of each transfer passes its result to it.
            tasks: runs the transfers. None for two threads, one for commits and one for fetches.
            is_alone: whether no other study writes to the store, so that the number of an attempt is nobody else's.
        """
        self._is_alone = is_alone
        self._store, self._cache, self._post = store, cache, post
        self._uploads: TaskQueue | TaskThread = tasks or TaskThread("uploads")
        self._fetches: TaskQueue | TaskThread = tasks or TaskThread("fetches")
        self.pending: list[LaneRun] = []
        """The runs of commits whose end the owner has not removed yet."""
        self.publishing: list[LaneRun] = []
        """The runs whose folders are being stored, likewise."""

    @property
    def is_full(self) -> bool:
        """Whether the next checkpoint has to wait."""
        return len(self.pending) >= MAX_PENDING

    def commit(
        self,
        run: LaneRun,
        checkpoint: CheckpointRef,
        staged: Path,
        packed_with: PackedWith | None,
        shards: Shards | None = None,
    ) -> None:
        """Commit a staged folder, with the shards that other workers have added."""
        self.pending.append(run)
        self._uploads.submit(lambda: self._commit(run, checkpoint, staged, packed_with, shards))

    def shard_place(self, run: LaneRun, stage: int, resource: int, staged: Path) -> None:
        """Ask where other workers add their shards of a checkpoint."""
        checkpoint = run.checkpoint(stage, resource)
        self._uploads.submit(
            lambda: self._shard_step(
                run, stage, resource, lambda: self._store.shard_place(checkpoint, staged), is_place=True
            )
        )

    def add_shard(self, run: LaneRun, stage: int, resource: int, place: str, staged: Path) -> None:
        """Add a staged folder to the checkpoint of another worker."""
        checkpoint = run.checkpoint(stage, resource)

        def add() -> str:
            files = self._store.add_shard(checkpoint, place, staged)
            if run.is_over or run.is_refused:  # nobody will commit it
                self._store.discard_shards(checkpoint, place)
            return msgspec.json.encode(files).decode()

        def step() -> None:
            self._shard_step(run, stage, resource, add, is_place=False)
            self._store.discard(staged)  # where it could not be added

        self._uploads.submit(step)

    def discard_shards(self, checkpoint: CheckpointRef, place: str) -> None:
        """Remove the shards of a checkpoint that will not be committed."""

        def remove() -> None:
            with contextlib.suppress(StoreError):  # what is left is swept when a driver opens the study
                self._store.discard_shards(checkpoint, place)

        self._uploads.submit(remove)

    def publish(self, run: LaneRun, folders: TrialFolders) -> None:
        """Store the folder of a run that is over, and remove it from this machine."""
        self.publishing.append(run)
        self._uploads.submit(lambda: self._publish(run, folders))

    def discard(self, staged: Path) -> None:
        """Remove a staged folder that will not be committed."""
        self._uploads.submit(lambda: self._store.discard(staged))

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

    def _shard_step(self, run: LaneRun, stage: int, resource: int, do: Callable[[], str], *, is_place: bool) -> None:
        try:
            answer = ShardAnswer(self._until_done(run, "commit", do), lane=run.number)
        except CheckpointError as error:
            answer = ShardAnswer("", _in_words(error), lane=run.number)
        except Exception as error:
            answer = ShardAnswer("", _in_words(error), is_store=True, lane=run.number)
        self._post(ShardDone(run, stage, resource, answer, is_place))

    def _commit(
        self,
        run: LaneRun,
        checkpoint: CheckpointRef,
        staged: Path,
        packed_with: PackedWith | None,
        shards: Shards | None,
    ) -> None:
        def commit() -> int:
            return self._cache.commit(checkpoint, staged, packed_with, shards, run.attempt if self._is_alone else None)

        size_bytes, error, kind = 0, "its lease was refused", ""
        try:
            if not run.is_refused:
                size_bytes, error = self._until_done(run, "commit", commit), ""
        except CheckpointError as raised:
            error = _in_words(raised)
        except Exception as raised:
            error, kind = _in_words(raised), "store"
        except KeyboardInterrupt:  # only where the user's own thread commits
            error, kind = "it was interrupted", "store"
            raise
        finally:
            if error:
                self._store.discard(staged)
                if shards is not None:
                    self.discard_shards(checkpoint, shards.place)
            self._post(Uploaded(run, checkpoint, size_bytes, error, kind))

    def _publish(self, run: LaneRun, folders: TrialFolders) -> None:
        def publish() -> None:
            try:
                folders.publish(run)
            except StoreError as error:
                if may_pass(error):
                    raise
                raise CheckpointError(str(error)) from error  # what no wait mends ends no run for a folder

        try:
            if not run.is_refused:
                self._until_done(run, "folder", publish)
        except Exception as error:
            warn(run, error)
        finally:
            folders.remove(run)
            self._post(Published(run))

    def _until_done(self, run: LaneRun, transfer: str, do: Callable[[], T]) -> T:
        """Return the result of a transfer; try again while the store fails and the run waits for it."""
        tasks = self._fetches if transfer == "fetch" else self._uploads
        delays = Backoff()
        is_waiting = False
        try:
            while True:
                try:
                    return do()
                except (CheckpointError, UsageError):
                    raise
                except Exception as error:
                    if not run.gives_up.is_set():
                        is_waiting = True
                        self._post(Waiting(transfer, _in_words(error)))
                        tasks.wait(run, delays.next_s())
                    if run.gives_up.is_set():  # its lease may have gone to another worker meanwhile
                        raise
        finally:
            if is_waiting:
                self._post(Waiting(transfer))

    def _fetch(self, run: LaneRun, checkpoint: CheckpointRef) -> Fetched:
        try:
            folder = self._until_done(run, "fetch", lambda: self._enter(run, checkpoint))
            path = folder / "checkpoint"
            if not path.exists():
                raise CheckpointError(f"Checkpoint {checkpoint} holds no file or folder named 'checkpoint'.")
            run.loaded = packed_with_beside(folder)
            return Fetched(run, path)
        except Exception as error:
            with contextlib.suppress(Exception):
                run.fetched.close()
            return Fetched(run, None, _in_words(error))

    def _enter(self, run: LaneRun, checkpoint: CheckpointRef) -> Path:
        try:
            return run.fetched.enter_context(self._cache.fetch(checkpoint))
        except CheckpointError:
            raise
        except StoreError as error:
            # A store of another kind may say only in words that it works and has no such checkpoint.
            if checkpoint in self._store.checkpoints(checkpoint.node):
                raise
            raise CheckpointError(str(error)) from error


def _in_words(error: Exception) -> str:
    return str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"


class TaskQueue:
    """Runs tasks in order, in the thread that calls ``run``.

    Args:
        wait: waits so many seconds between two tries of a task, or less if the run gives up.
    """

    def __init__(self, wait: Callable[[LaneRun, float], None]) -> None:
        self.wait = wait
        self._tasks: deque[Callable[[], None]] = deque()
        self._is_running = False

    def submit(self, task: Callable[[], None]) -> None:
        """Run a task later."""
        self._tasks.append(task)

    def run(self) -> bool:
        """Run the tasks that were submitted, and return whether there were any."""
        if self._is_running:  # a task waits for the store, and those that have come meanwhile follow it
            return False
        has_run, self._is_running = bool(self._tasks), True
        try:
            while self._tasks:
                self._tasks.popleft()()
        finally:
            self._is_running = False
        return has_run

    def close(self) -> None:
        """Do nothing: those that were submitted are run."""


class TaskThread:
    """One thread that runs tasks in order. It is a daemon: a store that hangs must not keep the process alive."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, task: Callable[[], None]) -> None:
        """Run a task later. The first call starts the thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._tasks.put(task)

    def wait(self, run: LaneRun, delay_s: float) -> None:
        """Wait so long, or less if the run gives up."""
        run.gives_up.wait(delay_s)

    def close(self) -> None:
        """End the thread after the submitted tasks."""
        self._tasks.put(None)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
