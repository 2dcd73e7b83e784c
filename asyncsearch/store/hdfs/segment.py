"""The files that a driver on HDFS holds open, its segments of the journal and of the logs, with a sync at each append.

The NameNode's lease on the open file keeps other drivers out: a driver that takes the study over has the leases of all
segments recovered, so that this one cannot append any more, even if it was stopped in the middle of an append and goes
on later. No clock is involved.

HDFS shows a file to others once it is closed. So a segment is closed after a twentieth of the time of the search, and
the driver goes on in the next; each takes its place at the NameNode, and a search of ten hours has some hundred.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Sequence

from asyncsearch.errors import SegmentOverError, StoreError, StoreLockedError
from asyncsearch.store.hdfs.files import HdfsFiles
from asyncsearch.store.hdfs.open_file import OpenFile
from asyncsearch.store.locks.lease_lock import LeaseLock

_log = logging.getLogger(__name__)
SHORTEST_S = 5.0
_SHARE = 0.05
MOST_BYTES = 16 << 20
"""A segment is kept in memory until it is closed, for who reads it in the driver's own process."""


def open_time_s(elapsed_s: float) -> float:
    """Return the time for which the next segment stays open, where the journal was first opened so long ago."""
    return max(SHORTEST_S, _SHARE * elapsed_s)


class HdfsSegment:
    """A journal segment that this process has begun."""

    def __init__(self, files: HdfsFiles, name: str, file: OpenFile, lock: LeaseLock | None, open_s: float) -> None:
        """Take over an empty file.

        Args:
            files: of the store.
            name: of the segment.
            file: the file.
            lock: of the driver; None if it holds none, as in a test.
            open_s: seconds after which it is closed so that others can read it; infinite if it is not.
        """
        self._files, self._name, self._file, self._lock = files, name, file, lock
        self._path = f"journal/{name}"
        self._guard = threading.Lock()
        """Held while the file is used: the timer's thread may close it."""
        self._appended: list[bytes] = []
        self._size_bytes = 0
        self._is_over = self._has_ended = False
        self._is_open = True
        """Whether HDFS has the file open, as far as is known."""
        open_segments.add(self)
        self._timer = threading.Timer(open_s, self._publish) if math.isinf(open_s) else self._start(open_s)

    @property
    def name(self) -> str:
        return self._name

    @property
    def place(self) -> tuple[str, str]:
        """The cluster and the path of its file."""
        return _place(self._files, self._path)

    def lines(self) -> Sequence[bytes]:
        """Return the lines that were appended and are durable."""
        return list(self._appended)

    def append(self, data: bytes) -> None:
        assert data.endswith(b"\n"), "a segment takes whole lines"
        with self._guard:
            words = f"Journal segment {self._name} of the store {self._files.shown!r}"
            if self._is_over:
                raise SegmentOverError(f"{words} was closed so that others can read it. Go on in a new one.")
            if self._has_ended:
                raise StoreError(f"{words} is closed. Go on in a new one: open_segment().")
            try:
                if self._lock is not None:
                    self._lock.check()
                with self._files.explained("append to", self._path):
                    self._file.append(data)
            except BaseException as error:
                # It is unknown how much was written: the next line could be appended to half a line.
                self._end()
                self._require_lock(error)
                raise
            self._appended.append(data)
            self._size_bytes += len(data)
            if self._size_bytes >= MOST_BYTES:
                self._is_over = True
                self._timer.cancel()
                self._timer = self._start(0.0)

    def close(self) -> None:
        """Close the file, so that its length is final and everybody can read it.

        Raises:
            StoreError: HDFS could not close it; try again.
        """
        with self._guard:
            if not self._has_ended:
                try:
                    self._file.close()
                    self._is_open = False
                except Exception as error:  # HDFS is asked to close it
                    _log.debug("Journal segment %s: %s", self._name, error)
                self._end()
            if self._is_open:
                self._files.recover(self._path)
                self._is_open = False
            open_segments.discard(self)

    def _end(self) -> None:
        """Write nothing more; HDFS may have it open."""
        self._has_ended = True
        self._timer.cancel()
        if self._is_open:
            self._file.give_up()

    def _publish(self) -> None:
        """Close it in the timer's thread; the driver goes on in the next one."""
        with self._guard:
            if self._has_ended and not self._is_over:
                return
            self._is_over = True
        try:
            self.close()
        except StoreError as error:
            _log.info("Journal segment %s cannot be read by others yet: %s", self._name, error)
            self._timer = self._start(SHORTEST_S)

    def _start(self, delay_s: float) -> threading.Timer:
        timer = threading.Timer(delay_s, self._publish)
        timer.daemon = True
        timer.name = "asyncsearch-journal-segment"
        timer.start()
        return timer

    def _require_lock(self, error: BaseException) -> None:
        """Say that another driver has the study, if that is why an append failed."""
        if self._lock is None or isinstance(error, StoreLockedError):
            return
        try:
            self._lock.confirm()
        except StoreLockedError as lost:
            raise lost from error
        except StoreError:  # the first error says why
            pass


class HdfsLog:
    """A file that grows by one ``hsync`` an append; see ``LogFile``."""

    def __init__(self, files: HdfsFiles, name: str, file: OpenFile) -> None:
        """Take over an empty file."""
        self._files, self._name, self._file = files, name, file

    def append(self, data: bytes) -> None:
        with self._files.explained("append to", self._name):
            self._file.append(data)

    def finish(self, data: bytes) -> None:
        with self._files.explained("close", self._name):
            self._file.write_and_close(data)

    def give_up(self) -> None:
        self._file.give_up()
        self._files.begin_to_close(self._name)


class OpenSegments:
    """The segments that this process has open, whichever of its stores has begun them."""

    def __init__(self) -> None:
        self._by_place: dict[tuple[str, str], HdfsSegment] = {}

    def add(self, segment: HdfsSegment) -> None:
        self._by_place[segment.place] = segment

    def discard(self, segment: HdfsSegment) -> None:
        self._by_place.pop(segment.place, None)

    def find(self, files: HdfsFiles, name: str) -> HdfsSegment | None:
        """Return the segment if this process has it open for writing."""
        return self._by_place.get(_place(files, f"journal/{name}"))

    def close_all(self, files: HdfsFiles) -> None:
        """Close the segments of a store that are still open in this process."""
        cluster, folder = _place(files, "journal/")
        for (where, path), segment in list(self._by_place.items()):  # a copy: a segment that closes leaves it
            if where == cluster and path.startswith(folder):
                try:
                    segment.close()
                except StoreError as error:
                    _log.warning("%s Who takes the study over has HDFS close it.", error)


open_segments = OpenSegments()


def _place(files: HdfsFiles, path: str) -> tuple[str, str]:
    return files.address.url, files.path(path)
