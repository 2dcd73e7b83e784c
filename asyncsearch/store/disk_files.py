"""The small files of a store on a disk: written and synced under ``tmp/``, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from asyncsearch.store import layout
from asyncsearch.store.base_store import FileInfo
from asyncsearch.store.disk import explained, make_folders, sync_folder, write_new
from asyncsearch.store.no_follow import inside, open_file, read_file

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class DiskFiles:
    """Reads, writes, lists and removes files below a folder; its methods are those of ``Store``."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._tmp = root / "tmp"

    def read(self, name: str) -> bytes | None:
        path = self._path(name)
        with explained("read", path), contextlib.suppress(FileNotFoundError):
            return read_file(path)
        return None

    def write(self, name: str, data: bytes) -> None:
        path = self._path(name)
        with explained("write", path):
            make_folders(path.parent)
            make_folders(self._folder("tmp"))
            staged = self._tmp / f"file-{uuid.uuid4().hex}"
            try:
                write_new(staged, data)
                os.replace(staged, path)
            except BaseException:
                staged.unlink(missing_ok=True)
                raise
            sync_folder(path.parent)

    def create(self, name: str, data: bytes) -> bool:
        path, staged = self._path(name), self._tmp / f"file-{uuid.uuid4().hex}"
        with explained("create", path):
            make_folders(self._folder("tmp"))
            staged.write_bytes(data)
            try:
                while True:
                    make_folders(path.parent)
                    try:
                        return _link(staged, path, data)
                    except FileNotFoundError:
                        if path.parent.is_dir():  # else another process has just removed the empty folder
                            raise
            finally:
                staged.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        path = self._path(name)
        with explained("remove", path):
            path.unlink(missing_ok=True)

    def list(self, folder: str) -> Sequence[str]:
        path = self._folder(layout.check_name(folder, ()))
        with explained("list", path):
            return names_in(path)

    def walk(self, folder: str) -> Mapping[str, FileInfo]:
        path = self._folder(layout.check_name(folder, ())) if folder else self._root
        with explained("list", path):
            return dict(_walk(path, ""))

    def remove_tree(self, folder: str) -> None:
        path = inside(self._root, layout.check_name(folder, ()))
        with explained("remove", path):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def remove_if_empty(self, folder: str) -> None:
        with contextlib.suppress(OSError):
            self._path(folder).rmdir()

    def _path(self, name: str) -> Path:
        return inside(self._root, layout.check_name(name))

    def _folder(self, name: str) -> Path:
        return inside(self._root, name, is_folder=True)


def exists(path: Path) -> bool:
    """Return whether there is a file, folder or link at a path."""
    with explained("look for", path):
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True


def names_in(folder: Path) -> list[str]:
    """Return the sorted names in a folder; none if there is no such folder."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def lines_of(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, or of the numbered chunks that other kinds of store write instead."""
    with explained("read", path):
        for part in sorted(path.iterdir()) if path.is_dir() and not path.is_symlink() else [path]:
            with open(open_file(part, os.O_RDONLY), "rb") as file:
                yield from file


def _walk(folder: Path, inside: str) -> Iterator[tuple[str, FileInfo]]:
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(folder / entry.name, f"{inside}{entry.name}/")
            continue
        with contextlib.suppress(FileNotFoundError):
            status = entry.stat(follow_symlinks=False)
            yield inside + entry.name, FileInfo(status.st_size, status.st_mtime)


def _link(staged: Path, path: Path, data: bytes) -> bool:
    try:
        os.link(staged, path)
    except FileExistsError:
        # On NFS a successful link can be repeated, and the repetition reports an error.
        return os.stat(staged).st_nlink == 2
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        try:
            with open(path, "xb") as file:
                file.write(data)
        except FileExistsError:
            return False
    return True
