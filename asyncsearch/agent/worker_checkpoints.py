"""The checkpoints of a worker's runs: fetch before, folders during, and commits after a training."""

from __future__ import annotations

from collections.abc import Callable

from asyncsearch.agent.checkpoint_cache import CheckpointCache
from asyncsearch.agent.lane_run import LaneRun
from asyncsearch.agent.transfers import Fetched, Transfers, Uploaded
from asyncsearch.events import CheckpointCommitted, CheckpointFailed
from asyncsearch.ids import CheckpointRef
from asyncsearch.runner.protocol import Folder, FolderWanted, Saved, SaveFailed
from asyncsearch.store.base_store import Store


class WorkerCheckpoints:
    """Connects the runner, which knows only local folders, with the store."""

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
            store: durable storage of checkpoints.
            send: sends an event to the driver.
            post: receives the result of a transfer; called from the transfers' threads.
            answer: sends the runner a folder.
            in_threads: whether transfers have their own threads; else the caller runs them, and ``post``.
        """
        self._store = store
        self._send = send
        self._answer = answer
        self._cache = CheckpointCache(store)
        self._transfers = Transfers(self._cache, post, in_threads=in_threads)
        self._wanted: tuple[LaneRun, FolderWanted] | None = None
        """A checkpoint that waits for the end of an upload, so that the local disk holds few of them."""

    @property
    def pending(self) -> int:
        """Number of commits that the driver does not know yet."""
        return self._transfers.pending

    def fetch(self, run: LaneRun) -> None:
        """Fetch the run's initial checkpoint."""
        if run.lane.load is not None:
            self._transfers.fetch(run, run.lane.load)

    def want(self, run: LaneRun, wanted: FolderWanted) -> None:
        """Give the runner a folder for a checkpoint, now or when there is room."""
        self._wanted = (run, wanted)
        self._give()

    def give_up(self) -> None:
        """Save no more, because the run must stop or is over."""
        self._wanted = None

    def saved(self, run: LaneRun, saved: Saved) -> None:
        """Commit a checkpoint that the runner has written."""
        run.resource = max(run.resource, saved.resource)
        run.saved.append(saved.resource)
        if saved.is_last:
            run.last_save = saved.resource
        staged = run.staged.pop((saved.stage, saved.resource))
        self._transfers.commit(run, run.checkpoint(saved.stage, saved.resource), staged)

    def save_failed(self, run: LaneRun, failed: SaveFailed) -> None:
        """Tell the driver that the runner could not save a checkpoint during the training."""
        run.resource = max(run.resource, failed.resource)
        staged = run.staged.pop((failed.stage, failed.resource), None)
        if staged is not None:
            self._transfers.discard(staged)
        self._tell_failure(run, run.checkpoint(failed.stage, failed.resource), failed.error)

    def uploaded(self, uploaded: Uploaded) -> None:
        """Tell the driver of a commit, and use the free room."""
        self._transfers.pending -= 1
        run, checkpoint = uploaded.run, uploaded.checkpoint
        if uploaded.error:
            self._tell_failure(run, checkpoint, uploaded.error)
        elif not run.is_refused:
            self._send(CheckpointCommitted(run.lease, checkpoint, uploaded.size_bytes, run.number))
        self._give()

    def forget(self, run: LaneRun) -> None:
        """Release the resources of a run."""
        for staged in run.staged.values():
            self._transfers.discard(staged)
        run.staged.clear()
        if run.lane.load is not None:
            self._transfers.release(run)

    def close(self) -> None:
        """End the threads after their submitted transfers."""
        self._transfers.close()
        self._cache.close()

    def _tell_failure(self, run: LaneRun, checkpoint: CheckpointRef, error: str) -> None:
        if run.is_refused:
            return
        failed = CheckpointFailed(run.lease, checkpoint, error, run.number)
        if checkpoint.resource == run.last_save and not run.is_over:
            run.held_back.append(failed)
            return
        if checkpoint.resource in run.saved:
            run.saved.remove(checkpoint.resource)
        self._send(failed)

    def _give(self) -> None:
        if self._wanted is None or self._transfers.is_full:
            return
        (run, wanted), self._wanted = self._wanted, None
        try:
            staged = self._store.stage(run.checkpoint(wanted.stage, wanted.resource))
        except Exception as error:
            self._answer(Folder("", f"There is no place for a checkpoint on this worker: {error}"))
        else:
            run.staged[wanted.stage, wanted.resource] = staged
            self._answer(Folder(str(staged)))
