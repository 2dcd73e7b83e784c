"""Writing ``head.json``, which says how far a journal is durable: see ``asyncsearch.journal.head``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Protocol

from asyncsearch.files.plain import open_file
from asyncsearch.store.disk import explained

HEAD_FILE = "head.json"
_INTERVAL_S = 10.0


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
    """What can write a whole small file; every store can."""

    def write(self, name: str, data: bytes) -> None: ...


class SmallHeadFile:
    """A head in a store that writes whole small files: every few seconds, since that costs as much as an append."""

    def __init__(self, files: SmallFiles) -> None:
        self._files = files
        self._data: bytes | None = None
        """What was noted and is not written."""
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


class LocalHeadFile:
    """A head on a local disk, overwritten in place: one that a crash of the machine leaves behind claims less."""

    def __init__(self, root: Path) -> None:
        self._path = root / HEAD_FILE
        self._descriptor: int | None = None

    def note(self, data: bytes) -> None:
        try:
            if self._descriptor is None:
                self._descriptor = self._open()
            os.pwrite(self._descriptor, data, 0)
            if not os.fstat(self._descriptor).st_nlink:  # removed: a head without a name tells nobody
                self._release()
                self._descriptor = self._open()
                os.pwrite(self._descriptor, data, 0)
        except OSError:
            self._release()
            with explained("write", self._path):
                raise

    def close(self) -> None:
        if self._descriptor is None:
            return
        try:
            with explained("write", self._path):
                os.fsync(self._descriptor)
        finally:
            self._release()

    def _open(self) -> int:
        return open_file(self._path, os.O_WRONLY | os.O_CREAT)

    def _release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
