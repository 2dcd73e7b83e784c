"""A store in a folder of a local disk, or of a shared POSIX mount (NFS, Lustre, ...) that all workers see.

It stays consistent whichever process is killed, at any time: everything is written and synced under ``tmp/``, then
renamed. A journal segment that a driver holds open must still be the one in the folder.

On NFS, names that another machine has just created may be invisible for seconds: mount with ``lookupcache=positive``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from asyncsearch.errors import StoreError, StoreLockedError, StoreLostError
from asyncsearch.files.plain import open_file, read_file
from asyncsearch.store import layout
from asyncsearch.store.base_store import Store
from asyncsearch.store.blocks import texts_of
from asyncsearch.store.disk import FileIdentity, explained, inside, make_folders, write_all, write_new
from asyncsearch.store.local.checkpoints import DiskCheckpoints
from asyncsearch.store.local.files import exists, lines_of, names_in
from asyncsearch.store.locks import flock
from asyncsearch.store.open_files import HEAD_FILE
from asyncsearch.store.rescue import Rescue, rescue_files
from asyncsearch.store.syncing import sync_data, sync_folder


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
                self._require_lock(self._lock)
        except OSError:
            with explained("look for the journal", self._path):
                raise

    def _require_lock(self, lock: FileIdentity) -> None:
        try:
            flock.require_in_place(lock)
        except StoreLockedError:
            if self._rescue.may_be_removed():  # the lock may be the first file of the folder that goes
                raise self._rescue.lost(Path(lock.path)) from None
            raise

    def _release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            self._rescue.close()


def open_local_segment(root: Path, folder: Path, may_be_removed: Callable[[], bool]) -> LocalSegment:
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
    return LocalSegment(path, descriptor, Rescue(root, may_be_removed), flock.held(root / "lock"))


class LocalHeadFile:
    """A head on a local disk, overwritten in place: one that a crash of the machine leaves behind claims less."""

    def __init__(self, root: Path, may_be_removed: Callable[[], bool]) -> None:
        self._path, self._may_be_removed = root / HEAD_FILE, may_be_removed
        self._descriptor: int | None = None

    def note(self, data: bytes) -> None:
        try:
            if self._descriptor is None:
                self._descriptor = self._open()
            os.pwrite(self._descriptor, data, 0)
            is_removed = not os.fstat(self._descriptor).st_nlink
            if is_removed and not self._may_be_removed():  # a head without a name tells nobody
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


class LocalStore(DiskCheckpoints):
    """One study's folder on a disk. It has no open files, so it can be pickled to workers that see the same path."""

    _may_be_removed = False

    def __repr__(self) -> str:
        return f"LocalStore({str(self._root)!r})"

    @property
    def url(self) -> str:
        return str(self._root)

    @property
    def is_far(self) -> bool:
        return False

    @property
    def is_exclusive(self) -> bool:
        return True

    def at(self, url: str) -> Store:
        return LocalStore(url)

    def rescued(self) -> Sequence[str]:
        return [str(path) for path in rescue_files(self._root)]

    def let_remove(self, may_be_removed: bool) -> None:
        self._may_be_removed = may_be_removed

    def free_bytes(self) -> int:
        with explained("measure the free space", self._root):
            return shutil.disk_usage(self._root).free

    def entries(self) -> Sequence[str]:
        with explained("look for a store", self._root):
            return names_in(self._root)

    def prepare(self) -> None:
        choose = f"Choose a folder that can be made and written, e.g. store='~/studies/{self._root.name}'"
        with explained("make the store", self._root, choose):
            folders = [self._folder(name) for name in layout.FOLDERS]
            make_folders(*folders)
            for folder in folders:
                _require_writable(folder)
            if self._tmp.stat().st_dev != (self._root / "checkpoints").stat().st_dev:
                raise StoreError(
                    f"The folders in {str(self._root)!r} lie on different disks, so a checkpoint cannot be committed by"
                    " a rename. Let the whole store lie on one disk."
                )
        with explained("write, move and read back a file", self._root):
            probe, data = self._tmp / f"probe-{uuid.uuid4().hex}", b"asyncsearch was here\n" * 200
            write_new(probe, data)
            moved = probe.rename(probe.with_suffix(".moved"))
            sync_folder(self._tmp)
            found = read_file(moved)
            moved.unlink()
        if found != data:
            raise StoreError(
                f"Cannot use the store at {str(self._root)!r}: what was written to it was read back differently."
                " Check that disk, or choose another."
            )

    def lock(self) -> AbstractContextManager[None]:
        return flock.hold(self._root / "lock")

    def is_locked(self) -> bool:
        return flock.is_held(self._root / "lock")

    def read_segment(self, name: str) -> Iterator[bytes]:
        path = inside(self._root, f"journal/{layout.check_segment(name)}")
        if not exists(path):
            raise StoreError(f"There is no journal segment at {str(path)!r}. Take its name from journal_segments().")
        return lines_of(path)

    def open_segment(self) -> LocalSegment:
        return open_local_segment(self._root, self._folder("journal"), lambda: self._may_be_removed)

    def open_head(self) -> LocalHeadFile:
        return LocalHeadFile(self._root, lambda: self._may_be_removed)

    @property
    def log_appends(self) -> bool:
        return True

    def begin_log(self, name: str) -> LocalLog | None:
        path = inside(self._root, layout.check_name(name))
        with explained("begin a log", path):
            if not self._root.is_dir():  # it was removed, and is not made anew for its logs
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            make_folders(path.parent)
            try:
                return LocalLog(path, open_file(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return None

    def _old_log(self, name: str) -> Iterator[str]:
        path = inside(self._root, layout.log_file(name))
        return texts_of(lines_of(path) if exists(path) else ())


def _require_writable(folder: Path) -> None:
    if os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        return
    if _is_read_only(folder):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))
    raise PermissionError(errno.EACCES, f"{folder.name!r} in it cannot be written by this user")


def _is_read_only(folder: Path) -> bool:
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
