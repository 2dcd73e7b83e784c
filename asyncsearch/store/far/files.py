"""The small files and the lock of a store whose file system is reached by calls, and has no rename, append or lock.

The lock is a lease: see asyncsearch.store.locks.lease_lock.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from asyncsearch.errors import NotAFileError, StoreError
from asyncsearch.files.contents import Content
from asyncsearch.store import layout
from asyncsearch.store.base_store import FileInfo, Store
from asyncsearch.store.locks.lease_lock import LeaseLock
from asyncsearch.store.patience import Patient, impatient, inner


class FarFiles(Protocol):
    """The files below a URL: what a file system must be able to do. Every method raises StoreError."""

    url: str

    @property
    def shows_unfinished(self) -> bool:
        """Whether a file that is being written is there already, and empty until it is whole."""

    @property
    def confirms_writes(self) -> bool:
        """Whether a file that was written without an error is whole, so that it need not be looked at again."""

    @property
    def removes_at_once(self) -> bool:
        """Whether ``remove_tree`` removes all of a folder or nothing, in one call."""

    @property
    def shown(self) -> str: ...
    @property
    def is_exclusive(self) -> bool: ...
    def is_file(self, name: str) -> bool: ...
    def is_written(self, name: str) -> bool: ...
    def is_folder(self, name: str) -> bool: ...
    def read(self, name: str) -> bytes | None: ...
    def write(self, name: str, data: bytes) -> None: ...
    def write_in_place(self, name: str, data: bytes) -> None: ...
    def create(self, name: str, data: bytes) -> bool: ...
    def blocks(self, name: str) -> Iterator[bytes]: ...
    def read_part(self, name: str, start: int, end: int | None) -> bytes | None: ...
    def upload(self, local: Path, name: str) -> Content: ...
    def download(self, name: str, local: Path) -> Content | None: ...
    def remove(self, name: str) -> None: ...
    def remove_tree(self, folder: str) -> None: ...
    def remove_if_empty(self, folder: str) -> None: ...
    def list(self, folder: str) -> Sequence[str]: ...
    def find(self, folder: str) -> Mapping[str, FileInfo]: ...


class FarFolder(Store):
    """The part of a far store that has its small files and its lock. It holds no connection."""

    _remote: FarFiles

    def __init__(self, lock_lease_s: float) -> None:
        self._lease_s = lock_lease_s
        self._lock: LeaseLock | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None, "_remote": inner(self._remote)}  # a worker has no part in the lock

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._remote.shown!r})"

    @property
    def url(self) -> str:
        return self._remote.url

    @property
    def is_exclusive(self) -> bool:
        return self._remote.is_exclusive

    def entries(self) -> Sequence[str]:
        return self._remote.list("")

    def begin_to_wait(self, timeout_s: float, say: Callable[[str], None]) -> None:
        self._remote = Patient(impatient(self._remote), timeout_s, say)

    def wait_no_longer(self) -> None:
        self._remote = impatient(self._remote)

    def prepare(self) -> None:
        if self._remote.is_file(""):
            raise StoreError(f"{self._remote.shown!r} is a file, and a store is a folder. Choose another address.")
        probe, data = f"tmp/probe-{uuid.uuid4().hex}", b"asyncsearch was here\n"
        self._remote.write(probe, b"")
        self._remote.write(probe, data)
        found = self._remote.read(probe)
        self._remote.remove(probe)
        if found != data or self._remote.read(probe) is not None:
            raise StoreError(
                f"Cannot use the store {self._remote.shown!r}: what was written to it was read back differently, or"
                " stayed when it was removed. Choose a file system that shows its writes at once."
            )

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        lock = LeaseLock(self._remote, self._lease_s)
        lock.acquire()
        self._lock = lock
        try:
            yield
        finally:
            self._lock = None
            lock.release()

    def is_locked(self) -> bool:
        return LeaseLock(self._remote, self._lease_s).is_held()

    # Small files

    def read(self, name: str) -> bytes | None:
        try:
            return self._remote.read(layout.check_name(name))
        except StoreError as error:
            raise self._explained(name, error) from error

    def _explained(self, name: str, error: StoreError) -> StoreError:
        """Return the error of a file, or the one for a folder that lies in its place."""
        with contextlib.suppress(StoreError):
            if not isinstance(error, NotAFileError) and self._remote.is_folder(name):
                where = f"{self._remote.shown}/{name}"
                return NotAFileError(f"A folder lies at {where!r}, in the place of a file: move it away.")
        return error

    def read_part(self, name: str, start: int, end: int | None = None) -> bytes | None:
        return self._remote.read_part(layout.check_name(name), start, end)

    def write(self, name: str, data: bytes) -> None:
        try:
            self._remote.write(layout.check_name(name), data)
        except StoreError as error:
            raise self._explained(name, error) from error

    def create(self, name: str, data: bytes) -> bool:
        return self._remote.create(layout.check_name(name), data)

    def remove(self, name: str) -> None:
        self._remote.remove(layout.check_name(name))

    def list(self, folder: str) -> Sequence[str]:
        return self._remote.list(layout.check_name(folder, ()))

    def walk(self, folder: str = "") -> Mapping[str, FileInfo]:
        return self._remote.find(layout.check_name(folder, ()) if folder else "")

    def remove_tree(self, folder: str) -> None:
        layout.check_name(folder, ())
        if self._remote.removes_at_once:
            self._remote.remove_tree(folder)
            return
        if folder.startswith("checkpoints/"):
            self._remote.remove(f"{folder}/{layout.MANIFEST}")  # first: a folder with a manifest must be complete
            self._remote.remove_tree(folder)
            return
        self._remote.remove_tree(folder)
        self._remote.remove(folder)

    def remove_if_empty(self, folder: str) -> None:
        self._remote.remove_if_empty(layout.check_name(folder, ()))
