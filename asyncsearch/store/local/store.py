"""A store in a folder of a local disk, or of a shared POSIX mount (NFS, Lustre, ...) that all workers see.

It stays consistent whichever process is killed, at any time: everything is written and synced under ``tmp/``, then
renamed.

On NFS, names that another machine has just created may be invisible for seconds: mount with ``lookupcache=positive``.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from asyncsearch.errors import StoreError
from asyncsearch.files.plain import open_file, read_file
from asyncsearch.store import layout
from asyncsearch.store.base_store import Store
from asyncsearch.store.blocks import texts_of
from asyncsearch.store.disk import explained, inside, make_folders, sync_folder, write_new
from asyncsearch.store.local.checkpoints import DiskCheckpoints
from asyncsearch.store.local.files import exists, lines_of, names_in
from asyncsearch.store.local.segment import LocalHeadFile, LocalLog, LocalSegment, open_local_segment
from asyncsearch.store.locks import flock
from asyncsearch.store.rescue import rescue_files


class LocalStore(DiskCheckpoints):
    """One study's folder on a disk. It has no open files, so it can be pickled to workers that see the same path."""

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

    def free_bytes(self) -> int:
        with explained("measure the free space", self._root):
            return shutil.disk_usage(self._root).free

    def entries(self) -> Sequence[str]:
        with explained("look for a store", self._root):
            return names_in(self._root)

    def prepare(self) -> None:
        choose = f"Choose a folder that can be made and written, e.g. Study(..., store='studies/{self._root.name}')"
        with explained("make the store", self._root, choose):
            for name in layout.FOLDERS:
                folder = self._folder(name)
                make_folders(folder)
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
        return open_local_segment(self._root, self._folder("journal"))

    def open_head(self) -> LocalHeadFile:
        return LocalHeadFile(self._root)

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
