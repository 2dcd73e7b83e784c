"""The checkpoints of a worker's runs: fetch before, folders during, and commits after a training."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from asyncsearch.agent.checkpoint_cache import CheckpointCache
from asyncsearch.agent.lane_run import LaneRun
from asyncsearch.agent.transfers import Published, ShardDone, TaskQueue, Transferred, Transfers, Uploaded, Waiting
from asyncsearch.agent.trial_folders import TrialFolders
from asyncsearch.agent.unwritten_copies import UnwrittenCopies
from asyncsearch.events import CheckpointCommitted, CheckpointFailed
from asyncsearch.ids import CheckpointRef
from asyncsearch.rpc.messages import StoreOutage
from asyncsearch.rpc.redelivery import Backoff
from asyncsearch.runner.protocol import (
    Folder,
    FolderWanted,
    Saved,
    SaveFailed,
    ShardAnswer,
    ShardPlaceWanted,
    ShardWritten,
)
from asyncsearch.store.base_store import Store
from asyncsearch.store.manifest import Sharded, Shards, StoredFile

_FILES = msgspec.json.Decoder(list[StoredFile])


class WorkerCheckpoints:
    """Connects the runner, which knows only local folders, with the store."""

    def __init__(
        self,
        store: Store,
        send: Callable[[CheckpointCommitted | CheckpointFailed | StoreOutage], None],
        post: Callable[[Transferred], None],
        tell: Callable[[Folder | ShardAnswer], None],
        folders: TrialFolders,
        tasks: TaskQueue | None = None,
        is_alone: bool = False,
    ) -> None:
        """Prepare.

        Args:
            store: durable storage of checkpoints.
            send: sends an event to the driver.
            post: receives the result of a transfer; called from the transfers' threads.
            tell: sends the runner an answer.
            folders: those of trials.
            tasks: runs transfers and ``post``. None for threads of their own.
            is_alone: whether no other study writes to the store.
        """
        self._store = store
        self._send = send
        self._tell = tell
        self._folders = folders
        self._cache = CheckpointCache(store)
        self._transfers = Transfers(store, self._cache, post, tasks, is_alone)
        self.copies = UnwrittenCopies(self._transfers, self._tell_failure, self._note_wait)
        self._wanted: tuple[LaneRun, FolderWanted] | None = None
        """A checkpoint that waits for a place, or for an upload to end, so that the local disk holds few of them."""
        self._delays = Backoff()
        """Between two tries to give it a place."""
        self.due: float | None = None
        """When to try that again, monotonic seconds. None if it does not wait for a place."""
        self._waiting: dict[str, str] = {}
        """Transfer that waits for the store -> the last answer of the store."""

    @property
    def publishing(self) -> list[LaneRun]:
        """The runs whose folders are being stored."""
        return list(self._transfers.publishing)

    def fetch(self, run: LaneRun) -> None:
        """Fetch the run's initial checkpoint, and give its trial a place for a folder."""
        run.place = self._folders.place()
        if run.lane.load is not None:
            self._transfers.fetch(run, run.lane.load)

    def want(self, run: LaneRun, wanted: FolderWanted) -> None:
        """Give the runner a folder for a checkpoint, now or when there is room."""
        self._wanted = (run, wanted)
        if not wanted.failed:
            self._give()
            return
        self._discard(run, wanted)
        self._put_off(wanted.failed)

    def give_up(self, run: LaneRun) -> None:
        """Save no more for a run, because it must stop or is over."""
        if self._wanted is not None and self._wanted[0] is not run:
            return  # another lane of its pack waits for a place
        self._wanted = None
        self._has_place()

    def wait_no_longer(self, runs: Iterable[LaneRun]) -> None:
        """Let transfers of these runs fail that wait for the store; the others of the runs are not disturbed."""
        for run in runs:
            run.gives_up.set()

    @property
    def committing(self) -> list[LaneRun]:
        """The runs with a commit that the driver does not know yet, a copy to commit, or a folder to store."""
        return [*self._transfers.pending, *self._transfers.publishing, *self.copies.runs]

    def transferred(self, done: Published | ShardDone | Uploaded | Waiting) -> None:
        """Handle the result of a transfer, other than a fetch."""
        match done:
            case Uploaded():
                self._uploaded(done)
            case Published():  # the folder needs no more care
                self._transfers.publishing.remove(done.run)
            case ShardDone():
                self._shard_done(done)
            case Waiting():
                self._note_wait(done)

    def _note_wait(self, waiting: Waiting) -> None:
        """Tell the driver when this worker begins to wait for the store, and when nothing waits any more."""
        was_waiting = bool(self._waiting)
        if waiting.error:
            self._waiting[waiting.transfer] = waiting.error
        else:
            self._waiting.pop(waiting.transfer, None)
        if was_waiting != bool(self._waiting):
            self._send(StoreOutage(waiting.error))

    def tick(self, now: float) -> None:
        """Try again to give the runner a folder, if that is due at ``now``, monotonic seconds."""
        if self.due is not None and now >= self.due:
            self.due = None
            self._give()

    def want_shard_place(self, run: LaneRun, wanted: ShardPlaceWanted) -> None:
        """Tell the runner where the other ranks of its gang add their shards."""
        staged = run.staged[wanted.stage, wanted.resource]
        self._transfers.shard_place(run, wanted.stage, wanted.resource, staged)

    def add_shard(self, run: LaneRun, written: ShardWritten) -> None:
        """Add the shard that the runner has written to the checkpoint of rank 0."""
        self._has_place()
        staged = run.staged.pop((written.stage, written.resource))
        self._transfers.add_shard(run, written.stage, written.resource, written.place, staged)

    def _shard_done(self, done: ShardDone) -> None:
        """Answer the runner that has asked for a place, or has written a shard."""
        run = done.run
        if done.is_place and not done.answer.error:
            run.shard_places[done.stage, done.resource] = done.answer.value
        if run.is_over:
            self._discard_shards(run)
        else:
            self._tell(done.answer)

    def saved(self, run: LaneRun, saved: Saved) -> None:
        """Commit a checkpoint that the runner has written."""
        self._has_place()
        run.resource = max(run.resource, saved.resource)
        run.saved.append(saved.resource)
        if saved.is_last:
            run.last_save = saved.resource
        staged = run.staged.pop((saved.stage, saved.resource))
        packed_with = run.packed_with(saved.stage, saved.resource)
        checkpoint = run.checkpoint(saved.stage, saved.resource)
        self._transfers.commit(run, checkpoint, staged, packed_with, self._shards_of(run, saved))

    def save_failed(self, run: LaneRun, failed: SaveFailed) -> None:
        """Tell the driver that the runner could not save a checkpoint during the training."""
        run.resource = max(run.resource, failed.resource)
        self._has_place()
        self._discard(run, failed)
        self._discard_shards(run)
        if run.is_follower:
            return  # rank 0 tells it
        self._tell_failure(run, run.checkpoint(failed.stage, failed.resource), failed.error, failed.error_kind)

    def _uploaded(self, uploaded: Uploaded) -> None:
        """Tell the driver of a commit, and use the free room."""
        run, checkpoint = uploaded.run, uploaded.checkpoint
        self._transfers.pending.remove(run)
        if uploaded.error:
            self._tell_failure(run, checkpoint, uploaded.error, uploaded.error_kind)
        elif not run.is_refused:
            self._send(CheckpointCommitted(run.lease, checkpoint, uploaded.size_bytes, run.number))
        self._give()

    def forget(self, run: LaneRun) -> None:
        """Release the resources of a run that is over, and store its folder if it has one."""
        if self._folders.is_used(run):
            self._transfers.publish(run, self._folders)
        for staged in run.staged.values():
            self._transfers.discard(staged)
        run.staged.clear()
        self._discard_shards(run)
        if run.lane.load is not None:
            self._transfers.release(run)

    def close(self) -> None:
        """End the threads after their submitted transfers."""
        self.wait_no_longer(self.committing)
        self.copies.lose()
        self._transfers.close()
        self._cache.close()
        self._folders.close()

    def _discard(self, run: LaneRun, of: FolderWanted | SaveFailed) -> None:
        staged = run.staged.pop((of.stage, of.resource), None)
        if staged is not None:
            self._transfers.discard(staged)

    def _shards_of(self, run: LaneRun, saved: Saved) -> Shards | None:
        if saved.shards is None or run.seat is None:
            return None
        files = [file for one in saved.shards.files for file in _FILES.decode(one)]
        place = run.shard_places.pop((saved.stage, saved.resource))
        return Shards(place, tuple(files), Sharded(run.seat.size, saved.shards.strategy))

    def _discard_shards(self, run: LaneRun) -> None:
        """Remove the shards that other ranks have added to checkpoints which the run does not save."""
        for (stage, resource), place in run.shard_places.items():
            self._transfers.discard_shards(run.checkpoint(stage, resource), place)
        run.shard_places.clear()

    def _tell_failure(self, run: LaneRun, checkpoint: CheckpointRef, error: str, kind: str) -> None:
        if run.is_refused:
            return
        failed = CheckpointFailed(run.lease, checkpoint, error, run.number, kind)
        if checkpoint.resource == run.last_save and not run.is_over:
            # The engine learns of a failed checkpoint only after the end that names it.
            run.held_back.append(failed)
            return
        if checkpoint.resource in run.saved:
            run.saved.remove(checkpoint.resource)
        self._send(failed)

    def _give(self) -> None:
        if self._wanted is None or self._transfers.is_full:
            return
        run, wanted = self._wanted
        try:
            staged = self._store.stage(run.checkpoint(wanted.stage, wanted.resource))
        except Exception as error:
            words = f"There is no place for a checkpoint on this worker: {error}"
            if wanted.is_needed:
                self._put_off(words)
                return
            answer = Folder("", words, run.number)
        else:
            run.staged[wanted.stage, wanted.resource] = staged
            answer = Folder(str(staged), lane=run.number)
        self._wanted = None
        if not wanted.failed:
            self._has_place()
        self._tell(answer)

    def _put_off(self, error: str) -> None:
        """Try later to give a place to the checkpoint that is wanted."""
        self.due = time.monotonic() + self._delays.next_s()
        self._note_wait(Waiting("save", error))

    def _has_place(self) -> None:
        """Note that no checkpoint waits for a place any more."""
        self.due = None
        self._delays.reset()
        self._note_wait(Waiting("save"))
