"""The small files of a store on a disk: written and synced under ``tmp/``, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from asyncsearch.files.paths import absolute
from asyncsearch.files.plain import open_file, open_to_read, read_file
from asyncsearch.files.trees import remove_tree, walk
from asyncsearch.store import layout
from asyncsearch.store.base_store import FileInfo, Store
from asyncsearch.store.disk import explained, inside, make_folders, write_new
from asyncsearch.store.syncing import sync_folder

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class DiskFiles(Store):
    """The part of a store that reads, writes, lists and removes files below a folder."""

    def __init__(self, root: str | Path) -> None:
        self._root = Path(absolute(root))
        self._tmp = self._root / "tmp"

    def read(self, name: str) -> bytes | None:
        path = self._path(name)
        with explained("read", path), contextlib.suppress(FileNotFoundError):
            return read_file(path)
        return None

    def read_part(self, name: str, start: int, end: int | None = None) -> bytes | None:
        path = self._path(name)
        with explained("read", path):
            try:
                file = open_to_read(path)
            except FileNotFoundError:
                return None
            with file:
                first, stop, _ = slice(start, end).indices(os.fstat(file.fileno()).st_size)
                file.seek(first)
                return file.read(max(0, stop - first))

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
            # The name must survive a power cut, too: what is written next may rely on it.
            sync_folder(path.parent)

    def create(self, name: str, data: bytes) -> bool:
        path, staged = self._path(name), self._tmp / f"file-{uuid.uuid4().hex}"
        with explained("create", path):
            make_folders(self._folder("tmp"))
            write_new(staged, data)
            try:
                while True:
                    make_folders(path.parent)
                    try:
                        # A link fails where the name is taken; a rename would replace the file of who was faster.
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

    def walk(self, folder: str = "") -> Mapping[str, FileInfo]:
        path = self._folder(layout.check_name(folder, ())) if folder else self._root
        with explained("list", path):
            return files_in(path)

    def remove_tree(self, folder: str) -> None:
        path = inside(self._root, layout.check_name(folder, ()))
        with explained("remove", path):
            remove_tree(path)

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
        is_folder = path.is_dir() and not path.is_symlink()
        for part in [path / name for name in layout.not_joined(os.listdir(path))] if is_folder else [path]:
            with open_to_read(part) as file:
                yield from file


def files_in(folder: Path) -> dict[str, FileInfo]:
    """Return the files in a folder, at any depth, without the folders in it that may not be read."""
    try:
        found = [entry for entry in walk(folder, follow=True, failed=lambda name, error: None) if not entry.is_folder]
        return {entry.name: FileInfo(entry.status.st_size, entry.status.st_mtime) for entry in found}
    except (FileNotFoundError, NotADirectoryError):
        return {}


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
            with os.fdopen(open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
                file.write(data)
        except FileExistsError:
            return False
    return True
