"""File systems in memory that count what they are asked: a NameNode, also over HTTP, and a store of objects."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

from fsspec.implementations.memory import MemoryFileSystem


class NameNode:
    """Files of HDFS, and the calls that a NameNode has been asked; it learns of each block in time."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.open: dict[str, bytes] = {}
        """What was written to files that are not closed, which read as empty ones."""
        self.folders: set[str] = {"/"}
        self.calls: Counter[str] = Counter()

    @property
    def inner(self) -> NameNode:
        return self

    def get_file_info(self, path: str) -> Any:
        self.calls["getFileInfo"] += 1
        return self._entry(path)

    def list_status(self, path: str, is_recursive: bool) -> list[Any]:
        self.calls["getListing"] += 1
        if path in self.files:
            return [self._entry(path)]
        if path not in self.folders:
            raise FileNotFoundError(path)
        inside = [
            one for one in (*self.files, *self.folders) if one.rpartition("/")[0] == path.rstrip("/") and one != path
        ]
        found = [self._entry(one) for one in inside]
        for one in inside:
            if is_recursive and one in self.folders:
                found += self.list_status(one, True)
        return found

    def create(self, path: str, options: Any) -> Writer:
        self.calls["create"] += 1
        if path in self.files and not options.overwrite:
            raise FileExistsError(path)
        self._make(path.rpartition("/")[0])
        self.files[path] = b""
        return Writer(self, path)

    def rename(self, source: str, target: str, overwrite: bool) -> None:
        self.calls["rename"] += 1
        if target.rpartition("/")[0] not in self.folders or source not in self.files:
            raise FileNotFoundError(target)
        if target in self.files and not overwrite:
            raise FileExistsError(target)
        self.files[target] = self.files.pop(source)

    def mkdirs(self, path: str, mode: int, parents: bool) -> None:
        self.calls["mkdirs"] += 1
        self._make(path)

    def delete(self, path: str, is_recursive: bool) -> bool:
        self.calls["delete"] += 1
        inside = [one for one in self.files if one == path or one.startswith(path + "/")]
        for one in inside:
            del self.files[one]
        self.folders = {one for one in self.folders if one != path and not one.startswith(path + "/")}
        return bool(inside)

    def read(self, path: str) -> Any:
        self.calls["getBlockLocations"] += 1
        if path not in self.files:
            raise FileNotFoundError(path)
        data = self.files[path]
        return SimpleNamespace(
            file_length=lambda: len(data),
            read=lambda _: data,
            read_range=lambda start, size: data[start : start + size],
            read_range_stream=lambda start, end: iter([data] if data else []),
        )

    def recover_lease(self, path: str) -> bool:
        self.calls["recoverLease"] += 1
        return path not in self.open

    def _entry(self, path: str) -> Any:
        if path not in self.files and path not in self.folders:
            raise FileNotFoundError(path)
        length = len(self.files.get(path, b""))
        return SimpleNamespace(path=path, isdir=path in self.folders, length=length, modification_time=0)

    def _make(self, path: str) -> None:
        while path:
            self.folders.add(path)
            path = path.rpartition("/")[0]


class Writer:
    """A file that is written: a block for its first bytes, and one call when it is whole."""

    def __init__(self, node: NameNode, path: str) -> None:
        self._node, self._path = node, path
        node.open[path] = b""

    def write(self, data: bytes) -> None:
        if not self._node.open[self._path]:
            self._node.calls["addBlock"] += 1
        self._node.open[self._path] += data

    def hsync(self) -> None:
        self._node.calls["fsync"] += 1

    def close(self) -> None:
        self._node.calls["complete"] += 1
        self._node.files[self._path] = self._node.open.pop(self._path)


class Beginnings:
    """What a file system has been asked when each training began."""

    calls: ClassVar[Counter[str]] = Counter()
    seen: ClassVar[list[Counter[str]]] = []


class HttpError(Exception):
    """An answer of WebHDFS that names an exception of Java."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        is_missing = isinstance(error, FileNotFoundError)
        self.exception = "FileNotFoundException" if is_missing else "FileAlreadyExistsException"


class HttpNode:
    """The client of HdfsCLI, and its requests; each of those with content is sent on to a DataNode."""

    def __init__(self) -> None:
        self.node = NameNode()
        self.calls: Counter[str] = Counter()

    def write(self, path: str, data: Any, overwrite: bool = False, append: bool = False) -> None:
        self.calls["APPEND" if append else "CREATE"] += 1
        content = data if isinstance(data, bytes) else b"".join(data)
        with _as_answers():
            if append:
                self.node.read(path)
                self.node.files[path] += content
                return
            writer = self.node.create(path, SimpleNamespace(overwrite=overwrite))
        writer.write(content)
        writer.close()

    @contextlib.contextmanager
    def read(self, path: str, offset: int = 0, length: int | None = None, chunk_size: int = 0) -> Iterator[Any]:
        self.calls["OPEN"] += 1
        with _as_answers():
            data = self.node.read(path).read(-1)[offset:]
        data = data if length is None else data[:length]
        yield iter([data] if data else []) if chunk_size else SimpleNamespace(read=lambda: data)

    def status(self, path: str) -> dict[str, Any]:
        self.calls["GETFILESTATUS"] += 1
        with _as_answers():
            return _as_status(self.node.get_file_info(path))

    def list(self, path: str, status: bool) -> list[tuple[str, dict[str, Any]]]:
        self.calls["LISTSTATUS"] += 1
        with _as_answers():
            found = self.node.list_status(path, False)
        if path in self.node.files:
            raise HttpError(NotADirectoryError(f"{path!r} is not a directory."))  # HdfsCLI's words
        return [(one.path.rpartition("/")[2], _as_status(one)) for one in found]

    def _rename(self, path: str, destination: str, renameoptions: str) -> None:
        self.calls["RENAME"] += 1
        with _as_answers():
            self.node.rename(path, destination, renameoptions == "OVERWRITE")

    def makedirs(self, path: str) -> None:
        self.calls["MKDIRS"] += 1
        self.node.mkdirs(path, 0o755, True)

    def delete(self, path: str, recursive: bool) -> bool:
        self.calls["DELETE"] += 1
        return self.node.delete(path, recursive)


@contextlib.contextmanager
def _as_answers() -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, FileExistsError) as error:
        raise HttpError(error) from error


def _as_status(entry: Any) -> dict[str, Any]:
    kind = "DIRECTORY" if entry.isdir else "FILE"
    return {"type": kind, "length": entry.length, "modificationTime": entry.modification_time}


class Objects(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A store of objects, and its requests."""

    protocol = "s3"
    async_impl = True  # as that of S3, which lists all objects below a prefix at once
    root_marker = ""
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    calls: ClassVar[Counter[str]] = Counter()
    inside: ClassVar[threading.local] = threading.local()

    @classmethod
    @contextlib.contextmanager
    def counted(cls, name: str) -> Iterator[None]:
        """Count a request, and none of those that the memory makes of it."""
        is_first = not getattr(cls.inside, "yes", False)
        if is_first:
            cls.calls[name] += 1
        cls.inside.yes = True
        try:
            yield
        finally:
            cls.inside.yes = not is_first


def _counted(name: str, method: str) -> Callable[..., Any]:
    inner = getattr(MemoryFileSystem, method)

    @functools.wraps(inner)
    def call(self: Objects, *args: Any, **kwargs: Any) -> Any:
        with self.counted(name):
            return inner(self, *args, **kwargs)

    return call


for _method, _name in {
    "pipe_file": "PUT",
    "put_file": "PUT",
    "cat_file": "GET",
    "get_file": "GET",
    "ls": "LIST",
    "find": "LIST",
    "isfile": "HEAD",
    "isdir": "HEAD",
    "info": "HEAD",
    "rm_file": "DELETE",
    "rm": "POST",  # DeleteObjects, of up to 1000
}.items():
    setattr(Objects, _method, _counted(_name, _method))
