"""Files below a URL of HDFS, whichever client reaches them: all that can be said in terms of a few calls of a client.

A file is written under another name and renamed, so that a reader sees all of it or none.
"""

from __future__ import annotations

import abc
import contextlib
import logging
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from asyncsearch.errors import ContentAwayError, StoreAwayError, StoreError
from asyncsearch.files.contents import Content
from asyncsearch.store.base_store import FileInfo
from asyncsearch.store.blocks import begun, save_blocks
from asyncsearch.store.disk import next_step
from asyncsearch.store.hdfs import hdfs_errors
from asyncsearch.store.hdfs.addresses import parse
from asyncsearch.store.passwords import without_password

_log = logging.getLogger(__name__)


class HadoopStatus(NamedTuple):
    """The NameNode's answer about a file or folder."""

    is_folder: bool
    size_bytes: int
    modified_ms: int

    @property
    def info(self) -> FileInfo:
        """Size and age."""
        return FileInfo(self.size_bytes, self.modified_ms / 1000)


class HadoopFiles(abc.ABC):
    """The files below a URL. It holds no connection. A client's calls raise FileNotFoundError and FileExistsError."""

    is_exclusive = True

    def __init__(self, url: str) -> None:
        self._place = parse(url)
        self.url = f"{self._place.scheme}://{self._place.authority}{self._place.path or '/'}"

    @property
    def shown(self) -> str:
        """The URL for messages."""
        return without_password(self.url)

    def path(self, name: str) -> str:
        """Return the path of a file on HDFS."""
        return f"{self._place.path}/{name}" if name else self._place.path or "/"

    @contextlib.contextmanager
    def explained(self, doing: str, name: str) -> Iterator[None]:
        """Turn any error of HDFS, of the connection or of a local file into a StoreError in words."""
        try:
            yield
        except StoreError:
            raise
        except Exception as error:  # each client has exceptions of its own
            meaning, step = hdfs_errors.explain(self._named(error))
            where = f"{self.shown}/{name}".rstrip("/")
            _log.debug("Cannot %s %r: %s", doing, where, error)
            # Not `from error`: Java's stack trace would be shown.
            kind = StoreAwayError if hdfs_errors.passes(meaning) else StoreError
            kind = ContentAwayError if meaning == hdfs_errors.NO_CONTENT else kind
            raise kind(f"Cannot {doing} {where!r}: {meaning}. {next_step(error, step)}.") from None

    def _named(self, error: Exception) -> Exception:
        """Return an error whose text begins with the name of Java's exception, if there was one."""
        return error

    # Calls of the client, by paths

    @abc.abstractmethod
    def _status(self, path: str) -> HadoopStatus: ...
    @abc.abstractmethod
    def _content(self, path: str) -> bytes: ...
    @abc.abstractmethod
    def _blocks(self, path: str) -> Iterator[bytes]: ...
    @abc.abstractmethod
    def _write_new(self, path: str, data: bytes) -> None: ...
    @abc.abstractmethod
    def _rename(self, source: str, target: str, *, overwrite: bool) -> None: ...
    @abc.abstractmethod
    def _make_folder(self, path: str) -> None: ...
    @abc.abstractmethod
    def _delete(self, path: str, *, recursive: bool = False) -> None: ...
    @abc.abstractmethod
    def _children(self, path: str) -> Mapping[str, HadoopStatus]: ...

    # Files, by their names in the store

    def is_file(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        found = self._looked_at(name)
        return found is not None and not found.is_folder

    def is_folder(self, name: str) -> bool:
        """Return whether there is a folder of this name."""
        found = self._looked_at(name)
        return found is not None and found.is_folder

    def size(self, name: str) -> int | None:
        """Return the length of a file that the NameNode knows, or None if there is none."""
        found = self._looked_at(name)
        return None if found is None else found.size_bytes

    def _looked_at(self, name: str) -> HadoopStatus | None:
        with self.explained("look at", name), contextlib.suppress(FileNotFoundError):
            return self._status(self.path(name))
        return None

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if there is none."""
        with self.explained("read", name), contextlib.suppress(FileNotFoundError):
            return self._content(self.path(name))
        return None

    def blocks(self, name: str) -> Iterator[bytes]:
        """Yield the part of a file that can be read, in blocks; see ``size`` for the whole of it."""
        with self.explained("read", name):
            yield from self._blocks(self.path(name))

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically: a reader sees the old content or the new."""
        with self.explained("write", name):
            self._move(self._temporary(data), name, overwrite=True)

    def create(self, name: str, data: bytes) -> bool:
        """Write a file that does not exist yet; return False if it does. Only one of several writers succeeds.

        It is whole as soon as it has its name: a process that is killed in between leaves no lock without a holder.
        """
        with self.explained("create", name):
            if self._exists(self.path(name)):
                return False
            temporary = self._temporary(data)
            try:
                self._move(temporary, name, overwrite=False)
            except FileExistsError:
                self._delete(temporary)
                return False
            return True

    def download(self, name: str, local: Path) -> Content | None:
        """Copy a file from here to a local one, hashed meanwhile, and return its content; None if there is none."""
        with self.explained("download", name):
            try:
                blocks = begun(self._blocks(self.path(name)))  # first: a missing file leaves no local one
            except FileNotFoundError:
                return None
            return save_blocks(blocks, local)

    def remove(self, name: str) -> None:
        """Remove a file; no error if there is none."""
        with self.explained("remove", name), contextlib.suppress(FileNotFoundError):
            self._delete(self.path(name))

    def remove_tree(self, folder: str) -> None:
        """Remove a folder with its contents; no error if there is none."""
        with self.explained("remove", folder), contextlib.suppress(FileNotFoundError):
            self._delete(self.path(folder), recursive=True)

    def remove_if_empty(self, folder: str) -> None:
        """Remove an empty folder."""
        path = self.path(folder)
        with contextlib.suppress(Exception):  # it is not empty, or gone
            if not self._children(path):
                self._delete(path)

    def list(self, folder: str) -> list[str]:
        """Return the sorted names directly in a folder."""
        with self.explained("list", folder), contextlib.suppress(FileNotFoundError):
            return sorted(self._children(self.path(folder)))
        return []

    def _exists(self, path: str) -> bool:
        with contextlib.suppress(FileNotFoundError):
            self._status(path)
            return True
        return False

    def _temporary(self, data: bytes) -> str:
        """Write a file under a name of its own, and return its path."""
        path = self.path(f"tmp/file-{uuid.uuid4().hex}")
        self._write_new(path, data)
        return path

    def _move(self, source: str, name: str, *, overwrite: bool) -> None:
        """Give a file its name.

        Raises:
            FileExistsError: another one has it.
        """
        target = self.path(name)
        try:
            self._rename(source, target, overwrite=overwrite)
        except FileNotFoundError:  # only now: nearly always the folder is there, and making it is one call more
            self._make_folder(target.rpartition("/")[0] or "/")
            self._rename(source, target, overwrite=overwrite)
