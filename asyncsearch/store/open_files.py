"""The files that one driver holds open and writes on, in whichever store: a journal segment, its head, and a log."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

HEAD_FILE = "head.json"
"""The last durable record of the journal: see ``asyncsearch.journal.head``."""
_INTERVAL_S = 10.0


class Segment(Protocol):
    """An open journal segment, written by this driver only."""

    @property
    def name(self) -> str:
        """Name of the segment, ``000002.jsonl``."""
        ...

    def append(self, data: bytes) -> None:
        """Write whole lines and return when they are durable. One thread calls it.

        Raises:
            StoreLockedError: another driver has taken the lock; nothing was written.
            SegmentOverError: the segment takes no more; nothing was written. Continue in a new one.
            StoreError: the write failed. The segment is now closed, since its end is unknown: continue in a new one.
        """
        ...

    def close(self) -> None:
        """Close the segment; further appends fail."""
        ...


class HeadFile(Protocol):
    """The head of one driver's journal, open for writing."""

    def note(self, data: bytes) -> None:
        """Write the content, which is always equally long, unless a write costs too much now; without a sync.

        Raises:
            StoreError: it cannot be written.
        """
        ...

    def close(self) -> None:
        """Make the content that was noted last durable.

        Raises:
            StoreError: it cannot be written.
        """
        ...


class SmallFiles(Protocol):
    """Something that can write a whole small file, as every store can."""

    def write(self, name: str, data: bytes) -> None: ...


class SmallHeadFile:
    """A head in a store that writes whole small files: every few seconds, since that costs as much as an append."""

    def __init__(self, files: SmallFiles) -> None:
        self._files = files
        self._data: bytes | None = None
        """The content that was noted and is not written."""
        self._due_s = 0.0

    def note(self, data: bytes) -> None:
        self._data = data
        if time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + _INTERVAL_S
            self.close()

    def close(self) -> None:
        data, self._data = self._data, None
        if data is not None:
            self._files.write(HEAD_FILE, data)


class LogFile(Protocol):
    """A file that was begun for appending, by this driver only. One thread calls it."""

    def append(self, data: bytes) -> None:
        """Write, and return when it is durable.

        Raises:
            StoreError: it is unknown what was written; write nothing more into it.
        """
        ...

    def finish(self, data: bytes) -> None:
        """Write the last bytes, and close it."""
        ...

    def give_up(self) -> None:
        """Close what can be closed; no error."""
        ...


class LogStore(Protocol):
    """A store, see ``asyncsearch.store.base_store.Store``."""

    @property
    def is_far(self) -> bool: ...
    @property
    def log_interval_s(self) -> float: ...
    @property
    def log_open_s(self) -> float: ...
    @property
    def log_appends(self) -> bool: ...
    def begin_log(self, name: str) -> LogFile | None: ...
    def create(self, name: str, data: bytes) -> bool: ...
    def read_part(self, name: str, start: int, end: int | None = None) -> bytes | None: ...
    def list(self, folder: str) -> Sequence[str]: ...
    def walk(self, folder: str = "") -> Mapping[str, Any]: ...
    def append_log(self, name: str, lines: Sequence[str]) -> None: ...
    def read_old_log(self, name: str, skip: int) -> Iterator[str]: ...
