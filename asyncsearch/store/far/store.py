"""Stores that copy files to and from this machine, and those of them whose journal and logs grow by appended pieces.

A journal segment of an ``AppendingStore`` is one file where appending is cheap (tried once), else a folder of numbered
objects (``segments.py``); a segment of the logs is one file, or one object. An append is as durable as the file system
makes a closed file.

``FsspecStore`` is such a store on any file system of fsspec: object stores, SFTP, or memory for tests. These have no
common rename or append. A small file is replaced atomically on object stores, SFTP and disks; on file systems whose
rename refuses to replace (SMB, FTP) it is missing for a moment.
"""

from __future__ import annotations

import abc
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from asyncsearch.errors import StoreError
from asyncsearch.store import layout
from asyncsearch.store.base_store import Store
from asyncsearch.store.blocks import split_lines, texts_of
from asyncsearch.store.far.checkpoints import FarCheckpoints
from asyncsearch.store.far.remote import Remote
from asyncsearch.store.far.segments import AppendedSegment, AppendingFiles, pieced_lines
from asyncsearch.store.passwords import with_user_alone, without_keys

T = TypeVar("T")


class FarStore(FarCheckpoints):
    """The journal and the logs of such stores, as far as they are alike."""

    def read_segment(self, name: str) -> Iterator[bytes]:
        if name not in self.journal_segments():
            raise StoreError(
                f"There is no journal segment {layout.check_segment(name)} in the store {self._remote.shown!r}. Take"
                " its name from journal_segments()."
            )
        return self._segment_lines(name)

    @abc.abstractmethod
    def _segment_lines(self, name: str) -> Iterator[bytes]:
        """Yield the lines of a segment that is there."""

    def _begin_segment(self, begin: Callable[[str], T | None]) -> tuple[str, T]:
        """Begin the next segment; return its name and its file. ``begin`` returns None where there is such a file."""
        if self._lock is not None:
            self._lock.check()
        number = max(layout.segment_numbers(self._remote.list("journal")), default=0) + 1
        while (file := begin(f"journal/{layout.segment_name(number)}")) is None:
            number += 1
        return layout.segment_name(number), file

    @property
    def log_interval_s(self) -> float:
        return 5.0


class AppendedLog:
    """A file that grows by each append; see ``LogFile``."""

    def __init__(self, remote: AppendingFiles, name: str) -> None:
        """Take over an empty file."""
        self._remote, self._name = remote, name

    def append(self, data: bytes) -> None:
        self._remote.append(self._name, data)

    def finish(self, data: bytes) -> None:
        self._remote.append(self._name, data)

    def give_up(self) -> None:
        """Nothing is open between two appends."""


class AppendingStore(FarStore):
    """A store on such a file system."""

    _remote: AppendingFiles

    def __init__(self, lock_lease_s: float) -> None:
        super().__init__(lock_lease_s)
        self._appends: bool | None = None

    def prepare(self) -> None:
        super().prepare()
        self._appends = self._can_append()

    # Journal

    def _segment_lines(self, name: str) -> Iterator[bytes]:
        return self._lines(f"journal/{name}")

    def open_segment(self) -> AppendedSegment:
        appends = self._can_append()
        first = "" if appends else "/000000000"
        name, _ = self._begin_segment(lambda path: self._remote.create(path + first, b"") or None)
        return AppendedSegment(self._remote, name, appends, self._lock)

    # Logs

    @property
    def log_open_s(self) -> float:
        return 60.0  # it can be read meanwhile, but only block by block

    @property
    def log_appends(self) -> bool:
        return self._can_append()

    def begin_log(self, name: str) -> AppendedLog | None:
        return AppendedLog(self._remote, name) if self._remote.create(layout.check_name(name), b"") else None

    def _old_log(self, name: str) -> Iterator[str]:
        path = layout.log_file(name)
        return texts_of(self._lines(path) if path.removeprefix("logs/") in self._remote.list("logs") else ())

    def _can_append(self) -> bool:
        if self._appends is None:
            probe = f"tmp/append-{uuid.uuid4().hex}"
            try:
                self._appends = self._remote.can_append
                if self._appends:
                    self._remote.append(probe, b"1\n")
                    self._remote.append(probe, b"2\n")
                    self._appends = self._remote.read(probe) == b"1\n2\n"
                    self._remote.remove(probe)
            except StoreError:
                self._appends = False  # HDFS can be set up without append
        return self._appends

    def _lines(self, name: str) -> Iterator[bytes]:
        if self._remote.list(name):
            yield from pieced_lines(self._remote, name)
        else:
            yield from split_lines(self._remote.blocks(name))


class FsspecStore(AppendingStore):
    """One study's folder at an fsspec URL. It pickles its URL and options; each process makes its own connections.

    Args:
        url: such as ``s3://bucket/studies/digits``.
        storage_options: options of fsspec's file system, such as keys and endpoints. They are sent to the workers; keys
            are written nowhere.
        lock_lease_s: seconds without a refresh after which a driver on another machine loses its lock.
    """

    _remote: Remote

    def __init__(
        self, url: str, storage_options: Mapping[str, Any] | None = None, *, lock_lease_s: float = 60.0
    ) -> None:
        super().__init__(lock_lease_s)
        self._remote = Remote(url, storage_options or {})

    def at(self, url: str) -> Store:
        return FsspecStore(url, self._remote.options, lock_lease_s=self._lease_s)

    def without_keys(self) -> Store:
        url, options = with_user_alone(self._remote.url), without_keys(self._remote.options)
        kept = FsspecStore(url, options, lock_lease_s=self._lease_s)
        kept._remote.lacks_keys = (url, options) != (self._remote.url, self._remote.options)
        return kept

    def with_keys_of(self, other: Store) -> Store:
        mine, its = (_server(store.url) for store in (self, other))
        if not isinstance(other, FsspecStore) or with_user_alone(mine) != with_user_alone(its):
            return self
        return other.at(its + self.url.removeprefix(mine))


def _server(url: str) -> str:
    """Return a URL without its path: ``sftp://ann:secret@host``."""
    protocol, separator, rest = url.partition("://")
    return f"{protocol}{separator}{rest.partition('/')[0]}"
