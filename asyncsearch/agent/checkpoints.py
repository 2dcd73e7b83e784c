"""The checkpoints of a worker's attempts: fetched before, given a folder, committed after."""

from __future__ import annotations

from collections.abc import Callable

from asyncsearch.agent.checkpoint_cache import CheckpointCache
from asyncsearch.agent.lane_run import LaneRun
from asyncsearch.agent.transfers import Fetched, Fetches, Uploaded, Uploads
from asyncsearch.events import CheckpointCommitted, CheckpointFailed
from asyncsearch.ids import CheckpointRef
from asyncsearch.runner.protocol import Folder, FolderWanted, Saved, SaveFailed
from asyncsearch.store.base_store import Store


class Checkpoints:
    """Stands between the runner, which only knows local folders, and the store."""

    def __init__(
        self,
        store: Store,
        send: Callable[[CheckpointCommitted | CheckpointFailed], None],
        post: Callable[[Uploaded | Fetched], None],
        answer: Callable[[Folder], None],
        *,
        in_threads: bool = True,
    ) -> None:
        """Prepare.

        Args:
            store: where checkpoints are durable.
            send: sends an event to the driver.
            post: takes the end of a transfer; called from the transfers' threads.
            answer: gives the runner a folder.
            in_threads: whether transfers have threads of their own; else they, and ``post``, are done by the caller.
        """
        self._store = store
        self._send = send
        self._answer = answer
        self._shelf = CheckpointCache(store)
        self._uploads = Uploads(self._shelf, post, in_thread=in_threads)
        self._fetches = Fetches(self._shelf, post, in_thread=in_threads)
        self._wanted: tuple[LaneRun, FolderWanted] | None = None
        """A checkpoint that is not saved before an upload is done; so the local disk holds few of them."""

    @property
    def pending(self) -> int:
        """Commits that the driver was not told of."""
        return self._uploads.pending

    def fetch(self, attempt: LaneRun) -> None:
        """Bring here what the attempt starts from."""
        if attempt.lane.load is not None:
            self._fetches.submit(attempt, attempt.lane.load)

    def want(self, attempt: LaneRun, wanted: FolderWanted) -> None:
        """Give the runner a folder for a checkpoint, now or when there is room."""
        self._wanted = (attempt, wanted)
        self._give()

    def give_up(self) -> None:
        """Save no more: the attempt was told to stop, or is over."""
        self._wanted = None

    def saved(self, attempt: LaneRun, saved: Saved) -> None:
        """Commit what the runner has written."""
        attempt.resource = max(attempt.resource, saved.resource)
        attempt.saved.append(saved.resource)
        if saved.is_last:
            attempt.last_save = saved.resource
        staged = attempt.staged.pop((saved.stage, saved.resource))
        self._uploads.submit(attempt, attempt.checkpoint(saved.stage, saved.resource), staged)

    def save_failed(self, attempt: LaneRun, failed: SaveFailed) -> None:
        """Tell the driver that the runner could not save on its way."""
        attempt.resource = max(attempt.resource, failed.resource)
        staged = attempt.staged.pop((failed.stage, failed.resource), None)
        if staged is not None:
            self._uploads.discard(staged)
        self._tell_failure(attempt, attempt.checkpoint(failed.stage, failed.resource), failed.error)

    def uploaded(self, uploaded: Uploaded) -> None:
        """Tell the driver of a commit, and make use of the room."""
        self._uploads.settle()
        attempt, checkpoint = uploaded.attempt, uploaded.checkpoint
        if uploaded.error:
            self._tell_failure(attempt, checkpoint, uploaded.error)
        elif not attempt.is_refused:
            self._send(CheckpointCommitted(attempt.lease, checkpoint, uploaded.size_bytes, attempt.number))
        self._give()

    def forget(self, attempt: LaneRun) -> None:
        """Let go what an attempt still holds."""
        for staged in attempt.staged.values():
            self._uploads.discard(staged)
        attempt.staged.clear()
        if attempt.lane.load is not None:
            self._fetches.release(attempt)

    def close(self) -> None:
        """End the threads after what they have to do."""
        self._uploads.close()
        self._fetches.close()
        self._shelf.close()

    def _tell_failure(self, attempt: LaneRun, checkpoint: CheckpointRef, error: str) -> None:
        if attempt.is_refused:
            return
        failed = CheckpointFailed(attempt.lease, checkpoint, error, attempt.number)
        if checkpoint.resource == attempt.last_save and not attempt.is_over:
            attempt.untold.append(failed)
            return
        if checkpoint.resource in attempt.saved:
            attempt.saved.remove(checkpoint.resource)
        self._send(failed)

    def _give(self) -> None:
        if self._wanted is None or self._uploads.is_full:
            return
        (attempt, wanted), self._wanted = self._wanted, None
        try:
            staged = self._store.stage(attempt.checkpoint(wanted.stage, wanted.resource))
        except Exception as error:
            self._answer(Folder("", f"There is no place for a checkpoint on this worker: {error}"))
        else:
            attempt.staged[wanted.stage, wanted.resource] = staged
            self._answer(Folder(str(staged)))
