"""Files below one fsspec URL: the operations that every file system has, with StoreErrors as errors.

There are two kinds. A file system with its own rename (disk, HDFS, SFTP) is a tree: folders must be made, an unfinished
file is visible, and a rename publishes it. A file system without one is an object store: an object appears complete or
not at all, folders are only prefixes, and a rename would be a copy.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from glob import has_magic
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import fsspec
from fsspec.implementations.local import LocalFileSystem

from asyncsearch.errors import NotAFileError, StoreError, in_a_line
from asyncsearch.files.contents import Content, content_of
from asyncsearch.files.trees import remove_tree
from asyncsearch.store.base_store import FileInfo
from asyncsearch.store.blocks import BLOCK_BYTES, save_blocks
from asyncsearch.store.disk import next_step
from asyncsearch.store.far.protocols import (
    APPENDING,
    EXCLUSIVE,
    OF_OBJECTS,
    WITH_PIPES,
    file_system,
    modified_s,
    quoted,
    unquoted,
)
from asyncsearch.store.local.files import files_in
from asyncsearch.store.passwords import without_password, without_password_of

T = TypeVar("T")

_CHECK = "Check the address, the credentials and the connection, then try again"
_WITHOUT_KEYS = (
    "The study keeps no passwords and keys: give them in the environment, as AWS_SECRET_ACCESS_KEY or"
    " FSSPEC_SFTP_PASSWORD; or go on from the script that names them, Study(..., resume=True)"
)


class _FileGuards:
    """The locks of files in this process, each as long as somebody uses it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._own = threading.Lock()

    def of(self, file: str) -> threading.Lock:
        """Return the lock of a file, the same one for every thread that asks."""
        with self._own:  # else two threads that ask first would each get a lock of their own
            found = self._locks.get(file)
            if found is None:
                found = self._locks[file] = threading.Lock()
            return found


_guards = _FileGuards()


class Remote:
    """The files below a URL. It holds only the URL and the options: each process and thread has its own connection."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.url = url.rstrip("/") if not url.endswith("://") else url
        self.options = dict(options)
        self.lacks_keys = False
        """Whether a study that was kept held no keys for it; see ``FsspecStore.without_keys``."""

    shows_unfinished = False
    removes_at_once = False

    @property
    def confirms_writes(self) -> bool:
        """Whether this is an object store, which takes an object of the length that is sent or none."""
        return not self._is_tree and self.url.partition("://")[0].lower() in OF_OBJECTS

    @property
    def shown(self) -> str:
        """The URL for messages, without a password."""
        return without_password(self.url)

    @property
    def _fs(self) -> Any:
        # fsspec caches one instance for each process, and for each thread if necessary; nothing to hold or to pickle.
        with self.explained("connect", ""):
            kind = file_system(self.url.partition("://")[0])
            return kind(**{**kind._get_kwargs_from_urls(quoted(self.url)), **self.options})

    def _path(self, name: str) -> str:
        root = self._bare(self.url).rstrip("/")
        return f"{root}/{name}" if name else root

    def _bare(self, url: str) -> str:
        """Return a path without its protocol. Some file systems parse it as a URL, and cut it off at a ``?``."""
        return unquoted(str(self._fs._strip_protocol(quoted(url)))) if "://" in url else url

    @property
    def _is_tree(self) -> bool:
        # Google's can move objects too, but an object appears complete where it is written.
        is_of_objects = self.url.partition("://")[0].lower() in OF_OBJECTS
        return not is_of_objects and type(self._fs).mv is not fsspec.AbstractFileSystem.mv

    @property
    def _has_own_copy(self) -> bool:
        kind = type(self._fs)
        return kind.get_file not in (fsspec.AbstractFileSystem.get_file, LocalFileSystem.get_file)

    @property
    def is_exclusive(self) -> bool:
        """Whether ``create`` lets exactly one of several machines succeed."""
        return self.url.partition("://")[0].lower() in EXCLUSIVE

    @property
    def _has_pipes(self) -> bool:
        """Whether pipes may lie in the place of files."""
        return self.url.partition("://")[0].lower() in WITH_PIPES

    @property
    def can_append(self) -> bool:
        """Whether this kind of file system should be able to append cheaply; try it before relying on it."""
        protocol = self._fs.protocol
        return bool(APPENDING & ({protocol} if isinstance(protocol, str) else set(protocol)))

    @contextlib.contextmanager
    def explained(self, doing: str, name: str) -> Iterator[None]:
        """Turn any error of a file system into a StoreError with the action, the path and the next step."""
        try:
            yield
        except StoreError:
            raise
        except Exception as error:  # each file system has its own exceptions
            what = in_a_line(error)
            step = next_step(error, _WITHOUT_KEYS if self.lacks_keys else _CHECK)
            words = f"{without_password_of(self.url, what)}. {step}."
            raise StoreError(f"Cannot {doing} at {f'{self.shown}/{name}'.rstrip('/')!r}: {words}") from error

    def guard(self, name: str) -> threading.Lock:
        """Return the lock of a file, the same one for every URL in this process that leads to the file.

        It may be held during calls of the file system: every waiting thread needs that same file.
        """
        return _guards.of(f"{type(self._fs).__qualname__}:{self._path(name)}")

    def is_file(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        with self.explained("look", name):
            return bool(self._fs.isfile(self._path(name)))

    def is_written(self, name: str) -> bool:
        """Return whether there is a file of this name; it is whole."""
        return self.is_file(name)

    def is_folder(self, name: str) -> bool:
        """Return whether there is a folder of this name."""
        with self.explained("look", name):
            return bool(self._fs.isdir(self._path(name)))

    def _require_plain(self, name: str) -> None:
        """Check that a file is one, where pipes and devices may lie in its place: opening a pipe may never end.

        Raises:
            FileNotFoundError: there is none.
            NotAFileError: it is something else.
        """
        if not self._has_pipes:
            return
        found = self._fs.info(self._path(name))
        if found["type"] != "file" or found.get("islink"):
            raise NotAFileError(
                f"{f'{self.shown}/{name}'!r} is a folder, pipe, device or link in the place of a file: move it away."
            )

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if there is none."""
        with self.explained("read", name), contextlib.suppress(FileNotFoundError):
            self._require_plain(name)
            return bytes(self._fs.cat_file(self._path(name)))
        return None

    def read_part(self, name: str, start: int, end: int | None) -> bytes | None:
        """Return the bytes of a file from ``start`` to before ``end``, as a slice does; None if there is none."""
        path = self._path(name)
        with self.explained("read", name):
            try:
                first, stop, _ = slice(start, end).indices(int(self._fs.size(path)))
                return bytes(self._fs.cat_file(path, start=first, end=stop)) if first < stop else b""
            except FileNotFoundError:
                return None

    def blocks(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file in blocks of up to 1 MiB."""
        with self.explained("read", name):
            self._require_plain(name)
            with self._fs.open(self._path(name), "rb") as file:
                while block := file.read(BLOCK_BYTES):
                    yield block

    def put(self, name: str, data: bytes) -> None:
        """Write a file in one piece; on a tree, a reader may see a part of it."""
        path = self._path(name)
        with self.explained("write", name):
            self._with_folder(path, lambda: self._fs.pipe_file(path, data))

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically: a reader sees the old content or the new."""
        if not self._is_tree:
            self.put(name, data)
            return
        temporary = f"tmp/file-{uuid.uuid4().hex}"
        self.put(temporary, data)
        with self.explained("write", name):
            self._with_folder(self._path(name), lambda: self._rename(self._path(temporary), self._path(name)))

    def write_in_place(self, name: str, data: bytes) -> None:
        """Write a file atomically, as ``write`` does."""
        self.write(name, data)

    def create(self, name: str, data: bytes) -> bool:
        """Write a file that does not exist yet; return False if it does."""
        path = self._path(name)

        def write() -> None:
            if isinstance(self._fs, LocalFileSystem):
                with self._fs.open(path, "xb") as file:
                    file.write(data)
            else:
                self._fs.pipe_file(path, data, mode="create")

        # Some file systems check first and then write: at least two threads of this process must not both succeed.
        with self.explained("create", name), self.guard(name):
            try:
                self._with_folder(path, write)
            except FileExistsError:
                return False
        return True

    def append(self, name: str, data: bytes) -> None:
        """Append to a file, made if absent, and close it."""
        path = self._path(name)
        with self.explained("append", name):
            try:
                self._require_plain(name)
                with self._fs.open(path, "ab") as file:
                    file.write(data)
            except FileNotFoundError:
                self.put(name, data)

    def upload(self, local: Path, name: str) -> Content:
        """Copy a local file here, and return what was copied."""
        path = self._path(name)
        with self.explained("upload", name):
            content = content_of(local)
            self._with_folder(path, lambda: self._fs.put_file(str(local), path))
        return content

    def download(self, name: str, local: Path) -> Content | None:
        """Copy a file from here to a local one, and return what was copied; None if there is no such file.

        The content is hashed while it is copied, in one pass. A file system with a faster copy of its own, as object
        stores have, uses that, and the local file is read back.
        """
        with self.explained("download", name):
            try:
                self._require_plain(name)
                if self._has_own_copy:
                    self._fs.get_file(self._path(name), str(local))
                    return content_of(local)
                with self._fs.open(self._path(name), "rb") as source:
                    return save_blocks(iter(lambda: source.read(BLOCK_BYTES), b""), local)
            except FileNotFoundError:
                return None

    def remove(self, name: str) -> None:
        """Remove a file; no error if there is none."""
        with self.explained("remove", name), contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._path(name))

    def remove_files(self, names: Sequence[str]) -> None:
        """Remove files, by few calls where the file system has one for many; no error for those that are gone."""
        paths = [self._path(name) for name in names]
        if any(has_magic(path) for path in paths):  # as a pattern a path may match files of other studies
            for name in names:
                self.remove(name)
            return
        with self.explained("remove", names[0]), contextlib.suppress(FileNotFoundError):
            self._fs.rm(paths)

    def remove_tree(self, folder: str) -> None:
        """Remove all files below a folder, and the folder where the file system has folders."""
        if isinstance(self._fs, LocalFileSystem):
            remove_tree(self._path(folder))
        elif self._is_tree:
            with self.explained("remove", folder), contextlib.suppress(FileNotFoundError):
                self._remove_all(self._path(folder))
        else:
            for name in self.find(folder):
                self.remove(f"{folder}/{name}")

    def _remove_all(self, path: str) -> None:
        """Remove a folder with its contents."""
        files, folders = self._contents(path)
        for name in files:
            self._fs.rm_file(name)
        for one in reversed(folders):
            self._fs.rmdir(one)

    def _contents(self, path: str) -> tuple[dict[str, Any], list[str]]:
        """Return all files below a folder, and all folders from it down: fsspec calls itself for each level."""
        files: dict[str, Any] = {}
        folders = [path]
        for one in folders:  # grows meanwhile
            for entry in self._fs.ls(one, detail=True):
                if entry["type"] == "directory":
                    folders.append(entry["name"])
                else:
                    files[entry["name"]] = entry
        return files, folders

    def remove_if_empty(self, folder: str) -> None:
        """Remove an empty folder, where the file system has folders."""
        if self._is_tree:
            # Each file system has its own exceptions for a folder that is not empty, or gone.
            with contextlib.suppress(Exception):
                self._fs.rmdir(self._path(folder))

    def list(self, folder: str) -> list[str]:
        """Return the sorted names directly in a folder."""
        path = self._path(folder)
        with self.explained("list", folder):
            self._fs.invalidate_cache()
            try:
                found = [self._bare(entry).rstrip("/") for entry in self._fs.ls(path, detail=False)]
            except (FileNotFoundError, NotADirectoryError):
                return []
        # Some file systems list a file as its own only content, or a prefix as a part of itself.
        return sorted(entry.rsplit("/", 1)[-1] for entry in found if entry != path)

    def find(self, folder: str) -> dict[str, FileInfo]:
        """Return the files below a folder, at any depth, by their names inside it."""
        path = self._path(folder)
        with self.explained("list", folder):
            self._fs.invalidate_cache()
            try:
                if isinstance(self._fs, LocalFileSystem):
                    return files_in(Path(path))
                found = self._fs.find(path, detail=True) if self._fs.async_impl else self._contents(path)[0]
            except (FileNotFoundError, NotADirectoryError):
                return {}
        inside = {self._bare(name).removeprefix(path + "/"): info for name, info in found.items()}
        return {
            name: FileInfo(int(info["size"] or 0), modified_s(info))
            for name, info in inside.items()
            if not name.startswith(path)
        }

    def _with_folder(self, path: str, action: Callable[[], T]) -> T:
        try:
            return action()
        except FileNotFoundError:
            if not self._is_tree:
                raise  # the bucket does not exist: never make one from a misspelt name
            self._fs.makedirs(self._fs._parent(path), exist_ok=True)
            return action()

    def _rename(self, source: str, target: str) -> None:
        try:
            self._fs.mv(source, target)
            if not self._fs.exists(source):
                return  # else it was refused without an error
        except Exception:
            if not self._fs.exists(target):
                raise
        self._fs.rm_file(target)
        self._fs.mv(source, target)
