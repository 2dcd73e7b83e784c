"""The interface of a store: the durable home of one study.

A store is a folder: on local disk, on HDFS, or wherever fsspec reaches. Its layout is the same everywhere:

    study.json                     description of the study, for people and for ``asyncsearch show``
    bundle.bin                     the pickled trainable, space, searcher and scheduler, for ``resume``
    journal/000001.jsonl ...       one segment for each driver; see asyncsearch.journal.format
    head.json                      the last durable record; see asyncsearch.journal.head
    snapshots/000000012345.json    the state after record 12345; an optional shortcut
    checkpoints/<node>/<resource>/ one folder for each checkpoint: files/ and manifest.json; complete or absent
    logs/segments/000001.log ...   what all trials print, with an index by trial; see asyncsearch.store.logs
    dirs/checkpoints/<node>/...    the last folder of each trial that made one, stored as checkpoints are
    lock, driver.json              the driver that may write; the latter for those who may only read
    remote/...                     of a driver that is a task of a cluster: what it, its workers and its client tell
    tmp/                           unfinished files; ``sweep`` may remove any of them

Where a file system cannot append or rename, a backend uses folders in place of a segment and the lock, and documents
it. A store can be pickled to a worker: it holds no connection, descriptor or lock. Every method is safe to
call from any thread, and raises StoreError when the store cannot be read or written. Stores make no decisions.
"""

from __future__ import annotations

import abc
import contextlib
import logging
import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from asyncsearch.errors import CheckpointError, InternalError, StoreError, StoreLockedError, StoreLostError
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.store import layout
from asyncsearch.store.blocks import begun
from asyncsearch.store.logs.reader import LogReader
from asyncsearch.store.logs.writer import AppendedLogs, LogWriter
from asyncsearch.store.manifest import PackedWith, Shards, StoredFile
from asyncsearch.store.open_files import HeadFile, LogFile, Segment, SmallHeadFile
from asyncsearch.store.passwords import without_password

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def left_behind() -> Iterator[None]:
    """Let what cannot be removed stay: a leftover ends no run, and what comes behind it is removed all the same."""
    try:
        yield
    except (StoreLockedError, StoreLostError):
        raise
    except StoreError as error:
        _log.warning("A leftover stays: %s", error)


class FileInfo(NamedTuple):
    """Size and age of a file in a store."""

    size_bytes: int
    modified_s: float | None
    """Unix time by the file system's clock; None where the file system does not report it."""


class Store(abc.ABC):
    """The durable home of one study."""

    @property
    @abc.abstractmethod
    def url(self) -> str:
        """Location of the store, in the form that ``open_store`` accepts."""

    @property
    def shown(self) -> str:
        """``url`` without a password, for people and for files outside this store."""
        return without_password(self.url)

    @property
    def is_far(self) -> bool:
        """Whether ``fetch`` copies files to this machine; if so, a worker caches the checkpoints that it used last."""
        return True

    @property
    @abc.abstractmethod
    def is_exclusive(self) -> bool:
        """Whether exactly one of several ``create`` calls for one name succeeds, even from different machines."""

    @abc.abstractmethod
    def at(self, url: str) -> Store:
        """Return a store of the same kind, with the same options, at another URL, without writing anything."""

    def without_keys(self) -> Store:
        """Return this store as the files of a study may hold it: without passwords and keys."""
        return self

    def with_keys_of(self, other: Store) -> Store:
        """Return this store with the passwords and keys of another one, if that is on the same server."""
        return self

    def child(self, name: str) -> Store:
        """Return the store in a folder of this one."""
        return self.at(f"{self.url.rstrip('/')}/{layout.check_name(name)}")

    def sibling(self, name: str) -> Store:
        """Return the store in a folder beside this one.

        Raises:
            StoreError: this store is at the top of its file system.
        """
        protocol, separator, place = self.url.rpartition("://")
        parent, slash, _ = place.rpartition("/")
        if not slash:
            raise StoreError(
                f"There is no place beside the store {self.shown!r} for what studies share. Name a folder:"
                " Sharing(shared=...), or share with nobody: Sharing(shared=False)."
            )
        return self.at(f"{protocol}{separator}{parent}/{name}")

    def rescued(self) -> Sequence[str]:
        """Return the rescue files of a study that was removed from this place while it ran, the newest last."""
        return ()

    def let_remove(self, may_be_removed: bool) -> None:
        """Say whether the program may remove the store's folder, without a rescue file or anything written anew."""

    def free_bytes(self) -> int | None:
        """Return the free space where the store is prepared; None if its file system does not report it."""
        return None

    def entries(self) -> Sequence[str]:
        """Return the sorted names at the top of the store; empty if it is not there yet, or cannot say."""
        return ()

    @abc.abstractmethod
    def prepare(self) -> None:
        """Make the folders and prove that the store can be written: write, sync, read back and remove a probe.

        Raises:
            StoreError: the store cannot be written; the message names the path and the operation.
        """

    def begin_to_wait(self, timeout_s: float, say: Callable[[str], None]) -> None:
        """Wait from now on, in each call, up to ``timeout_s`` seconds for servers that are away for the moment.

        ``say`` takes sentences for the user. It is for the start of a run: later, the driver decides what waits.
        """

    def wait_no_longer(self) -> None:
        """End what ``begin_to_wait`` has begun; nothing if it was not called."""

    @abc.abstractmethod
    def lock(self) -> AbstractContextManager[None]:
        """Hold the right to write the journal inside the ``with``; a driver that dies loses it.

        What earlier drivers appended can be read inside, and one that still runs appends nothing any more.

        Raises:
            StoreLockedError: another driver holds it; the message names its host and process.
        """

    @abc.abstractmethod
    def is_locked(self) -> bool:
        """Return whether a driver seems to hold the lock now. For display only: it does not reserve the lock."""

    @abc.abstractmethod
    def read(self, name: str) -> bytes | None:
        """Return the content of a small file such as ``study.json``, or None if there is none."""

    @abc.abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Write a small file atomically: a reader sees the old content or the new. Return when it is durable."""

    @abc.abstractmethod
    def create(self, name: str, data: bytes) -> bool:
        """Write a small file that does not exist yet; return False if it does. See ``is_exclusive``."""

    @abc.abstractmethod
    def remove(self, name: str) -> None:
        """Remove a small file; no error if there is none."""

    @abc.abstractmethod
    def list(self, folder: str) -> Sequence[str]:
        """Return the sorted names of the files and folders directly in a folder; empty if there is no such folder."""

    @abc.abstractmethod
    def walk(self, folder: str = "") -> Mapping[str, FileInfo]:
        """Return the files below a folder, at any depth, by their names inside it; ``tmp`` is included."""

    @abc.abstractmethod
    def remove_tree(self, folder: str) -> None:
        """Remove a folder and its contents, or a file; no error if there is none."""

    def remove_if_empty(self, folder: str) -> None:
        """Remove an empty folder, where the file system has folders; no error if it is not empty."""

    def journal_segments(self) -> Sequence[str]:
        """Return the names of the journal's segments in order."""
        return [layout.segment_name(number) for number in layout.segment_numbers(self.list("journal"))]

    def journal_size(self) -> int:
        """Return the size of the journal in bytes; 0 if there is none. One listing, so it is cheap to call often."""
        return sum(file.size_bytes for file in self.walk("journal").values())

    @abc.abstractmethod
    def read_segment(self, name: str) -> Iterator[bytes]:
        """Yield the unchanged lines of a segment, each with its newline; the last may lack it.

        Raises:
            BeingWrittenError: after the last line that can be read, where more was written, and only who holds the
                lock can read it. Under the lock everything acknowledged is read, or an error says what is missing.
        """

    @abc.abstractmethod
    def open_segment(self) -> Segment:
        """Begin the next segment. Never opens an existing one."""

    def open_head(self) -> HeadFile:
        """Return ``head.json`` open for writing; one driver writes it, beside the segment that it has begun."""
        return SmallHeadFile(self)

    @abc.abstractmethod
    def stage(self, checkpoint: CheckpointRef) -> Path:
        """Return a new, empty local folder into which a worker may write a checkpoint before ``commit``.

        Another process on the same machine may write it. It may contain only plain files and folders.
        """

    @abc.abstractmethod
    def commit(
        self,
        checkpoint: CheckpointRef,
        staged: Path,
        packed_with: PackedWith | None = None,
        shards: Shards | None = None,
    ) -> int:
        """Make a staged folder the checkpoint, durable and complete, and return its size in bytes.

        ``packed_with`` is for its manifest, and left out where it is None; so is ``shards``: what other workers have
        added in the place that ``shard_place`` gave for this staged folder, and what divided the state.

        Committing the same checkpoint again replaces it; a reader sees one or the other, and a reader of the old one
        can finish. The staged folder is gone afterwards; after an error it still exists and may be committed again.

        Raises:
            StoreError: the folder cannot be a checkpoint, or it could not be made durable, or a shard is missing.
        """

    def commit_of(
        self,
        attempt: int,
        checkpoint: CheckpointRef,
        staged: Path,
        packed_with: PackedWith | None = None,
        shards: Shards | None = None,
    ) -> int:
        """Commit as ``commit`` does, for an attempt whose number no other one of this store has, or ever had.

        A later attempt has a higher number, so a store need not look for what others have committed before. The driver
        deletes what it replaces, by ``delete_of``.
        """
        if shards is not None:
            return self.commit(checkpoint, staged, packed_with, shards)
        if packed_with is not None:
            return self.commit(checkpoint, staged, packed_with)
        return self.commit(checkpoint, staged)  # a store of an earlier version knows nothing else

    def shard_place(self, checkpoint: CheckpointRef, staged: Path) -> str:
        """Return the name of the place where other workers add their shards of a checkpoint before its commit.

        Raises:
            StoreError: the store cannot be used now.
            CheckpointError: stores of this kind take no shards.
        """
        raise CheckpointError(
            f"{type(self).__name__} takes no checkpoint that several workers write: give it shard_place() and"
            " add_shard(), or let one worker write, strategy='zero1' or 'ddp'."
        )

    def add_shard(self, checkpoint: CheckpointRef, place: str, staged: Path) -> Sequence[StoredFile]:
        """Add the files of a staged folder to a checkpoint that is not committed yet, durably, and return them.

        Their names are those of no other worker. The staged folder is gone afterwards; after an error it still exists.

        Raises:
            StoreError: they could not be made durable.
            CheckpointError: the place is gone, or holds such a file.
        """
        raise InternalError(f"{type(self).__name__} gave no place for shards")

    def discard_shards(self, checkpoint: CheckpointRef, place: str) -> None:
        """Remove the shards of a checkpoint that will not be committed; no error if there are none."""

    @abc.abstractmethod
    def discard(self, staged: Path) -> None:
        """Remove a staged folder that will not be committed; no error if it is gone, or was never staged."""

    @abc.abstractmethod
    def fetch(self, checkpoint: CheckpointRef) -> AbstractContextManager[Path]:
        """Provide a local folder with the checkpoint's files, read-only and valid inside the ``with``.

        The manifest lies beside the folder, where that is possible.

        The contents of all files are compared with the committed ones.

        Raises:
            StoreError: there is no such checkpoint, or it is damaged; the message names the file.
        """

    @abc.abstractmethod
    def delete(self, checkpoint: CheckpointRef) -> None:
        """Remove a checkpoint; no error if there is none."""

    def delete_of(self, attempt: int, checkpoint: CheckpointRef) -> None:
        """Remove a checkpoint that was committed by ``commit_of`` of this attempt alone, without looking for others."""
        self.delete(checkpoint)

    @abc.abstractmethod
    def checkpoints(self, node: NodeKey | None = None) -> Sequence[CheckpointRef]:
        """Return every committed checkpoint, or all of one node, ordered by node and resource."""

    @abc.abstractmethod
    def sweep(self) -> None:
        """Remove the leftovers of crashed writers: staged folders, temporary files, replaced checkpoints.

        Call it only under ``lock`` and before workers run: a running worker would lose its staged folders, and its
        commit would fail.
        """

    def sweep_except(self, needed: Container[CheckpointRef], *, settled: Container[NodeKey] = ()) -> None:
        """Sweep as ``sweep`` does, and delete the checkpoints that are not needed; one that cannot be deleted stays.

        Args:
            needed: the checkpoints that stay.
            settled: nodes with needed checkpoints and nothing else, into which a store need not look.
        """
        self.sweep()
        for checkpoint in self.checkpoints():
            if checkpoint not in needed:
                with left_behind():
                    self.delete(checkpoint)

    # Logs

    @property
    def log_interval_s(self) -> float:
        """Seconds for which a driver collects the lines of all trials before it appends them; it may be costly."""
        return 0.5

    @property
    def log_open_s(self) -> float:
        """Least time, in seconds, after which a segment of the logs is closed so that others can read it."""
        return math.inf

    @property
    def log_appends(self) -> bool:
        """Whether ``begin_log`` can be used; if not, a log is written by ``create``, a file for each append."""
        return False

    def begin_log(self, name: str) -> LogFile | None:
        """Begin a file to which this driver appends; return None if it exists. The name is one of ``read``.

        Raises:
            StoreError: it cannot be written.
        """
        raise InternalError(f"{type(self).__name__} does not append to logs")

    def read_part(self, name: str, start: int, end: int | None = None) -> bytes | None:
        """Return the bytes of a file from ``start`` to before ``end``, as a slice does; None if there is no such file.

        Args:
            name: of a file, as for ``read``.
            start: from 0; negative: counted from the end.
            end: None: to the end; what is behind the end of the file is left out.

        Raises:
            BeingWrittenError: it is open for writing and cannot be read now.
        """
        data = self.read(name)
        return None if data is None else data[start:end]

    def open_log(self) -> LogWriter | AppendedLogs:
        """Return the writer of the lines of all trials, for one driver at a time."""
        return LogWriter(self) if type(self).append_log is Store.append_log else AppendedLogs(self)

    def append_log(self, name: str, lines: Sequence[str]) -> None:
        """Append lines (without newlines) to the log of one trial, durably; a driver uses ``open_log``."""
        layout.log_file(name)
        writer = LogWriter(self)
        writer.write({name: lines})
        writer.close()

    def read_log(self, name: str) -> Iterator[str]:
        """Yield the lines of a trial's log, ``trial-7``, without newlines; nothing if there is none."""
        return begun(LogReader(self, name).lines())

    def read_old_log(self, name: str, skip: int) -> Iterator[str]:
        """Yield the lines of a log but the first ``skip`` as earlier versions wrote it, a file or a folder for each."""
        is_own = type(self).read_log is not Store.read_log  # of a store that writes its logs by itself
        return islice(self.read_log(name) if is_own else self._old_log(name), skip, None)

    def _old_log(self, name: str) -> Iterator[str]:
        return iter(())
