"""A journal segment that grows by appends: one file, or where a file cannot grow a folder of numbered objects.

    journal/000001.jsonl/000000001-000000256   what the first appends have written, joined
    journal/000001.jsonl/000000257             an append

Each append is an object, and readers would ask for all: after some, and at a clean end, their driver joins them. The
joined object is whole before the others are removed, and stands for them: what is killed in between leaves both, and
the same lines are read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from asyncsearch.errors import StoreError
from asyncsearch.store import layout
from asyncsearch.store.blocks import split_lines
from asyncsearch.store.far.files import FarFiles
from asyncsearch.store.locks.lease_lock import LeaseLock

_log = logging.getLogger(__name__)

JOINED_AFTER = 256
"""Appends that are joined: the most that a reader asks for one by one after a driver's death."""
_READS, _AHEAD = 16, 64
"""Objects of a journal that are read at a time, and held: each takes 20 ms and more."""
_TRIES = 5
"""Listings of a segment that is joined again and again meanwhile."""


class AppendingFiles(FarFiles, Protocol):
    """The files below a URL, some of which grow."""

    @property
    def can_append(self) -> bool: ...
    def put(self, name: str, data: bytes) -> None: ...
    def append(self, name: str, data: bytes) -> None: ...
    def remove_files(self, names: Sequence[str]) -> None: ...


class AppendedSegment:
    """The segment of a driver, open for appends; one thread at a time calls it."""

    def __init__(self, remote: AppendingFiles, name: str, appends: bool, lock: LeaseLock | None) -> None:
        self._remote = remote
        self._name = name
        self._appends = appends
        self._lock = lock
        self._chunk = 0
        self._apart: list[bytes] = []
        """The content of the last objects, which are not joined."""
        self._closed = False

    @property
    def name(self) -> str:
        return self._name

    def append(self, data: bytes) -> None:
        assert data.endswith(b"\n"), "a segment takes whole lines"
        if self._closed:
            raise StoreError(
                f"Journal segment {self._name} of the store {self._remote.shown!r} is closed. Go on in a new one:"
                " open_segment()."
            )
        try:
            if self._lock is not None:
                self._lock.check()
            if self._appends:
                self._remote.append(f"journal/{self._name}", data)
            else:
                self._chunk += 1
                self._remote.put(f"journal/{self._name}/{self._chunk:09d}", data)
            if self._lock is not None:
                self._lock.check()  # it may have been stopped in between for longer than its lease
        except BaseException:
            # It is unknown how much was written: the next line could be appended to half a line.
            self._closed = True
            raise
        if not self._appends:
            self._apart.append(data)
            if len(self._apart) >= JOINED_AFTER:
                self._join()

    def close(self) -> None:
        if not self._closed and len(self._apart) > 1:
            self._join()
        self._closed = True

    def _join(self) -> None:
        """Put the objects that are apart into one. All is durable as it is: a failure costs readers some calls."""
        apart, self._apart = self._apart, []
        numbers = range(self._chunk - len(apart) + 1, self._chunk + 1)
        folder, names = f"journal/{self._name}", [f"{number:09d}" for number in numbers]
        try:
            if not {*names} <= {*self._remote.list(folder)}:
                return  # the study was removed or replaced: who did so wants no file of it
            self._remote.write(f"{folder}/{layout.joined_name(names)}", b"".join(apart))
            self._remote.remove_files([f"{folder}/{name}" for name in names])
        except StoreError as error:
            _log.debug("The objects of a journal were left apart: %s", error)


def pieced_lines(remote: AppendingFiles, folder: str) -> Iterator[bytes]:
    """Yield the lines of a segment's objects, which may be joined meanwhile."""
    done = 0  # bytes, always at an object's end
    for tries_left in reversed(range(_TRIES)):
        position = 0
        names = [f"{folder}/{name}" for name in layout.not_joined(remote.list(folder))]
        for data in _in_order(remote.read, names):
            if data is None and tries_left:
                break  # it was joined after the listing
            new = (data or b"")[max(0, done - position) :]
            position += len(data or b"")
            yield from split_lines([new] if new else [])
            done = max(done, position)
        else:
            return


def _in_order(read: Callable[[str], bytes | None], names: Sequence[str]) -> Iterator[bytes | None]:
    """Yield the content of files in their order, several of which are read at a time."""
    if not names:
        return
    with ThreadPoolExecutor(min(len(names), _READS), "asyncsearch-read") as pool:
        for first in range(0, len(names), _AHEAD):
            yield from pool.map(read, names[first : first + _AHEAD])
