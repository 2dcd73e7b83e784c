"""The files that a driver holds open on a disk: a journal segment must still be the one in the folder."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from asyncsearch.errors import StoreError, StoreLockedError, StoreLostError
from asyncsearch.files.plain import open_file
from asyncsearch.store import layout
from asyncsearch.store.disk import FileIdentity, explained, make_folders, sync_data, sync_folder, write_all
from asyncsearch.store.local.files import names_in
from asyncsearch.store.locks import flock
from asyncsearch.store.open_files import HEAD_FILE
from asyncsearch.store.rescue import Rescue


class LocalSegment:
    """A journal segment on disk; each append is one write and one sync, and a look whether the file is still there.

    A file that was removed can be written as before, and all that is written is gone when it is closed.
    """

    def __init__(self, path: Path, descriptor: int, rescue: Rescue, lock: FileIdentity | None) -> None:
        self._path, self._rescue, self._lock = path, rescue, lock
        self._identity = FileIdentity.of(path, descriptor)
        self._descriptor: int | None = descriptor
        self._has_failed = False
        """Whether an append failed, so that its end is unknown: it is held open only to be rescued if it is lost."""

    @property
    def name(self) -> str:
        return self._path.name

    def append(self, data: bytes) -> None:
        assert data.endswith(b"\n"), "a segment takes whole lines"
        if self._descriptor is None or self._has_failed:
            raise StoreError(f"Journal segment {str(self._path)!r} is closed. Go on in a new one: open_segment().")
        try:
            self._require_in_place()  # before it, too: what is not acknowledged should not be found later
            with explained("write the journal", self._path):
                write_all(self._descriptor, data)
                sync_data(self._descriptor)
            self._require_in_place()
        except (StoreLostError, StoreLockedError):
            self._release()
            raise
        except BaseException:
            # After a failed write or sync the end of the segment is unknown: the next line could be appended to half a
            # line, or be acknowledged after a lost one. It stays open, so that it can be rescued if it is removed.
            self._has_failed = True
            raise

    def close(self) -> None:
        if self._descriptor is None:
            return
        try:
            self._require_in_place()
        finally:
            self._release()

    def _require_in_place(self) -> None:
        try:
            if not self._identity.is_in_place():
                raise self._rescue.lost(self._path)
            if self._lock is not None:
                flock.require_in_place(self._lock)
        except OSError:
            with explained("look for the journal", self._path):
                raise

    def _release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            self._rescue.close()


def open_local_segment(root: Path, folder: Path) -> LocalSegment:
    """Begin the next segment of the store at ``root``, in its folder ``journal``."""
    with explained("begin a journal segment", folder):
        make_folders(folder)
        number = max(layout.segment_numbers(names_in(folder)), default=0)
        while True:
            number += 1
            path = folder / layout.segment_name(number)
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o666)
                break
        sync_folder(folder)
    return LocalSegment(path, descriptor, Rescue(root), flock.held(root / "lock"))


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


class LocalLog:
    """A file that grows by one write and one sync an append; see ``LogFile``."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """Take over a new file."""
        self._path, self._descriptor = path, descriptor

    def append(self, data: bytes) -> None:
        with explained("write a log", self._path):
            write_all(self._descriptor, data)
            sync_data(self._descriptor)

    def finish(self, data: bytes) -> None:
        self.append(data)
        self.give_up()

    def give_up(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)
