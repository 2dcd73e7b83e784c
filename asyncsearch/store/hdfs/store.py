"""A study's folder on HDFS, through hdfs-native.

Besides the guarantees of asyncsearch.store.far.store:

* A small file is replaced atomically, and of several processes that create one, exactly one succeeds.
* The journal is one open file of its driver, synced at each append; it is closed every now and then, so that others can
  read it, and goes on in the next (see ``segment``). A driver that takes a study over has HDFS close what former
  drivers left open before it reads anything, which also keeps out a former driver that still runs. What is read is
  compared with the length that the NameNode gives: less is an error, never a shorter journal.
* Who does not hold the lock reads the closed segments, and learns that the last one is being written.
* The logs of all trials are one open file of its driver, synced every few seconds, and closed as the journal is.
* A checkpoint whose content no DataNode has is waited for; if that lasts while HDFS takes other files, it is damaged.

Earlier versions wrote a log as a folder of closed files, each named by the bytes that it holds:
``logs/trial-7.log/000000000000-000000000518``. What was appended was written anew together with the short pieces before
it, so pieces overlap where their writer was killed: the one that reaches furthest counts.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from asyncsearch.errors import BeingWrittenError, ContentAwayError, JournalDamagedError, StoreError
from asyncsearch.files.contents import Content
from asyncsearch.ids import CheckpointRef
from asyncsearch.store import layout
from asyncsearch.store.base_store import Store
from asyncsearch.store.blocks import split_lines, texts_of
from asyncsearch.store.far.store import FarStore
from asyncsearch.store.hdfs.addresses import Address, parse
from asyncsearch.store.hdfs.files import HdfsFiles
from asyncsearch.store.hdfs.segment import HdfsLog, HdfsSegment, open_segments, open_time_s

_UPLOADS = 8
"""Files of a checkpoint that are copied at a time: for a small one HDFS mostly waits."""
_LEFT_OPEN = 5
"""How many of the last segments of the logs may have been left open: the last, and some that could not be closed."""


class HdfsStore(FarStore):
    """One study's folder at an ``hdfs://`` or ``viewfs://`` URL. It pickles its URL and the address of the cluster.

    Args:
        url: such as ``hdfs://namenode:8020/studies/digits``, or ``hdfs:///studies/digits``.
        address: the cluster; None means as the URL says, Spark's Hadoop configuration or HADOOP_CONF_DIR.
        lock_lease_s: seconds without a refresh after which a driver on another machine loses its lock.
        gone_after_s: seconds after which a checkpoint whose content no DataNode has counts as damaged, while HDFS takes
            other files.
    """

    _remote: HdfsFiles

    def __init__(
        self, url: str, address: Address | None = None, *, lock_lease_s: float = 60.0, gone_after_s: float = 120.0
    ) -> None:
        super().__init__(lock_lease_s)
        self._remote = HdfsFiles(url, address)
        self._absences = Absences(gone_after_s)
        self._begun_s: float | None = None
        """When the first segment was opened under the lock, monotonic seconds."""

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_begun_s": None, "_absences": Absences(self._absences.patience_s)}

    def at(self, url: str) -> Store:
        is_same = parse(url)[:2] == parse(self.url)[:2]  # a worker cannot find the address out again
        address, patience_s = self._remote.known_address if is_same else None, self._absences.patience_s
        return HdfsStore(url, address, lock_lease_s=self._lease_s, gone_after_s=patience_s)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        with super().lock():
            for name in self.journal_segments():
                self._remote.recover(f"journal/{name}")
            for number in layout.log_segment_numbers(self._remote.list(layout.LOG_SEGMENTS))[-_LEFT_OPEN:]:
                self._remote.recover(layout.log_segment(number))
            self._begun_s = None
            try:
                yield
            finally:
                open_segments.close_all(self._remote)

    # Journal

    def _segment_lines(self, name: str) -> Iterator[bytes]:
        mine = open_segments.find(self._remote, name)
        if mine is not None:
            yield from split_lines(mine.lines())
            return
        size_bytes = self._remote.size(f"journal/{name}") or 0  # before it is read: it may grow
        read = 0
        last = b""
        for last in split_lines(self._remote.blocks(f"journal/{name}")):
            read += len(last)
            if last.endswith(b"\n"):
                yield last
        if read >= size_bytes:
            if last and not last.endswith(b"\n"):
                yield last
            return
        words = f"Of journal segment {name} of {self._remote.shown!r} {read:,} of {size_bytes:,} bytes can be read"
        if self._lock is not None:
            raise JournalDamagedError(
                f"{words}, although HDFS has closed it. See whether all DataNodes that had it run, hdfs fsck; nothing"
                " was written. Then try again."
            )
        raise BeingWrittenError(
            f"{words}: a driver is writing it, or has died. Read it later; or go on with the study, which reads all"
            f" of it: Study.resume({self.shown!r})."
        )

    def open_segment(self) -> HdfsSegment:
        name, file = self._begin_segment(self._remote.open_new)
        if self._lock is not None:
            # A driver that takes the study over closes the segments that it finds. One that comes after that must not
            # be written: this driver may have been stopped for long between the last look at the lock and here.
            try:
                self._lock.confirm()
            except BaseException:
                file.give_up()
                with contextlib.suppress(StoreError):
                    self._remote.remove(f"journal/{name}")
                raise
        now = time.monotonic()
        if self._begun_s is None:
            self._begun_s = now
        open_s = math.inf if self._lock is None else open_time_s(now - self._begun_s)
        return HdfsSegment(self._remote, name, file, self._lock, open_s)

    # Checkpoints

    def _upload(self, names: Sequence[str], staged: Path, folder: str) -> Sequence[Content]:
        if len(names) < 2:
            return super()._upload(names, staged, folder)
        with ThreadPoolExecutor(min(len(names), _UPLOADS), "asyncsearch-upload") as pool:
            return list(pool.map(lambda name: self._remote.upload(staged / name, f"{folder}/{name}"), names))

    def _download_version(self, checkpoint: CheckpointRef, folder: str, local: Path) -> str | None:
        try:
            wrong = super()._download_version(checkpoint, folder, local)
        except ContentAwayError:
            if not self._absences.note(folder, time.monotonic()):
                raise
            try:
                self.prepare()
            except StoreError:
                self._absences.forget(folder)  # it may be there once HDFS is
                raise
            waited = f"{self._absences.patience_s:g} s"
            return f"its content was lost (no DataNode has had it for {waited}, while HDFS takes other files)"
        except StoreError:
            self._absences.forget(folder)
            raise
        self._absences.forget(folder)
        return wrong

    # Logs

    @property
    def log_open_s(self) -> float:
        return 10.0

    @property
    def log_appends(self) -> bool:
        return True

    def begin_log(self, name: str) -> HdfsLog | None:
        file = self._remote.open_new(layout.check_name(name))
        return None if file is None else HdfsLog(self._remote, name, file)

    def _old_log(self, name: str) -> Iterator[str]:
        return texts_of(split_lines(pieced_blocks(self._remote, layout.log_file(name))))


class Absences:
    """Since when the content of each file has been away."""

    def __init__(self, patience_s: float) -> None:
        self.patience_s = patience_s
        self._since: dict[str, float] = {}

    def note(self, name: str, now: float) -> bool:
        """Note that no DataNode has the content of a file; return whether that has been so for too long."""
        return now - self._since.setdefault(name, now) >= self.patience_s

    def forget(self, name: str) -> None:
        """Note that the content is there, or that nothing could be read at all."""
        self._since.pop(name, None)


_PIECE_NAME = re.compile(r"(\d{12})-(\d{12,})")


class LogFiles(Protocol):
    """The part of a file system that is needed."""

    @property
    def shown(self) -> str: ...
    def list(self, folder: str) -> Sequence[str]: ...
    def read(self, name: str) -> bytes | None: ...


class LogPiece(NamedTuple):
    """The bytes of a log from ``start`` to before ``end``."""

    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.start:012d}-{self.end:012d}"

    @property
    def size_bytes(self) -> int:
        return self.end - self.start


def log_pieces_among(names: Sequence[str]) -> list[LogPiece]:
    """Return the pieces among the names of a folder."""
    return [LogPiece(int(found[1]), int(found[2])) for name in names if (found := _PIECE_NAME.fullmatch(name))]


def longest_at(pieces: Sequence[LogPiece], at: int) -> LogPiece | None:
    """Return the piece that holds byte ``at`` and reaches furthest; None if the log ends there."""
    return max((piece for piece in pieces if piece.start <= at < piece.end), key=lambda piece: piece.end, default=None)


def pieced_blocks(files: LogFiles, folder: str) -> Iterator[bytes]:
    """Yield the content of a log; nothing if there is none. It may be written meanwhile.

    Raises:
        StoreError: it cannot be read, or is damaged.
    """
    at = 0
    present = log_pieces_among(files.list(folder))
    while (piece := longest_at(present, at)) is not None:
        data = _piece_content(files, folder, piece)
        if data is None:  # it was written anew meanwhile, in a longer one
            present = log_pieces_among(files.list(folder))
            continue
        yield data[at - piece.start :]
        at = piece.end


def _piece_content(files: LogFiles, folder: str, piece: LogPiece) -> bytes | None:
    name = f"{folder}/{piece}"
    data = files.read(name)
    if data is not None and len(data) != piece.size_bytes:
        raise StoreError(
            f"Of {f'{files.shown}/{name}'!r} {len(data):,} of {piece.size_bytes:,} bytes can be read. See whether all"
            " DataNodes that had it run, hdfs fsck, then try again."
        )
    return data
