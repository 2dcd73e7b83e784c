"""A store whose journal and logs are files that grow by each append, or folders of numbered objects.

* A journal segment or a log is one file where appending is cheap (tried once), else a folder with one numbered object
  for each append. An append is as durable as the file system makes a closed file.
* One process appends to a log at a time.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Protocol

from asyncsearch.errors import StoreError
from asyncsearch.store import layout
from asyncsearch.store.far_store import FarFiles, FarStore, split_lines
from asyncsearch.store.lease_lock import LeaseLock

_chunk_guard = threading.Lock()
_last_chunk = 0


class AppendingFiles(FarFiles, Protocol):
    """The files below a URL, some of which grow."""

    @property
    def can_append(self) -> bool: ...
    def put(self, name: str, data: bytes) -> None: ...
    def append(self, name: str, data: bytes) -> None: ...
    def blocks(self, name: str) -> Iterator[bytes]: ...
    def guard(self, name: str) -> threading.Lock: ...


class AppendedSegment:
    """A journal segment: one file that grows, or a folder of numbered objects."""

    def __init__(self, remote: AppendingFiles, name: str, appends: bool, lock: LeaseLock | None) -> None:
        self._remote = remote
        self._name = name
        self._appends = appends
        self._lock = lock
        self._chunk = 0
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
            self.close()
            raise

    def close(self) -> None:
        self._closed = True


class AppendingStore(FarStore):
    """What such stores have in common."""

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
        if self._lock is not None:
            self._lock.check()
        appends = self._can_append()
        number = max(layout.segment_numbers(self._remote.list("journal")), default=0) + 1
        while not self._remote.create(
            f"journal/{layout.segment_name(number)}" + ("" if appends else "/000000000"), b""
        ):
            number += 1
        return AppendedSegment(self._remote, layout.segment_name(number), appends, self._lock)

    # Logs

    def append_log(self, name: str, lines: Sequence[str]) -> None:
        path = layout.log_file(name)
        data = "".join(f"{line}\n" for line in lines).encode(errors="backslashreplace")
        with self._remote.guard(path):
            if self._can_append():
                self._remote.append(path, data)
            else:
                self._remote.put(f"{path}/{_next_chunk()}", data)

    def read_log(self, name: str) -> Iterator[str]:
        path = layout.log_file(name)
        lines = self._lines(path) if path.removeprefix("logs/") in self._remote.list("logs") else iter(())
        return (line.decode(errors="replace").removesuffix("\n") for line in lines)

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
        chunks = self._remote.list(name)
        if not chunks:
            yield from split_lines(self._remote.blocks(name))
        for chunk in chunks:
            yield from split_lines([self._remote.read(f"{name}/{chunk}") or b""])


def _next_chunk() -> str:
    """Return a name that sorts after all earlier ones of this process."""
    global _last_chunk  # noqa: PLW0603
    with _chunk_guard:
        _last_chunk = max(time.time_ns(), _last_chunk + 1)
        return f"{_last_chunk:020d}-{uuid.uuid4().hex[:8]}"
