"""Files below a ``webhdfs://`` or ``swebhdfs://`` URL, through the package ``hdfs`` (HdfsCLI).

WebHDFS has neither an open file that is synced nor the recovery of a lease: an append opens the file, writes and closes
it, and what was written then is in the memory of the DataNodes.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from asyncsearch.errors import CheckpointError, StoreError
from asyncsearch.files.contents import Content, new_digest
from asyncsearch.files.plain import open_to_read
from asyncsearch.store.base_store import FileInfo
from asyncsearch.store.hdfs import tokens
from asyncsearch.store.hdfs.addresses import gateways_of, hadoop_settings
from asyncsearch.store.hdfs.hadoop_files import HadoopFiles

_BLOCK = 1 << 20
_TIMEOUT_S = (10.0, 120.0)
"""To connect, and to wait for an answer."""
_local = threading.local()
"""The connections of each thread: requests does not promise that threads may share them."""


class WebHdfsFiles(HadoopFiles):
    """The files below a URL. It holds no connection."""

    can_append = True

    def __init__(self, url: str, gateways: str = "") -> None:
        if "#LATEST" in url:
            raise StoreError(f"{url!r} cannot be a path for HdfsCLI, which replaces '#LATEST'. Choose another name.")
        super().__init__(url)
        self.known_gateways = gateways
        """The addresses of the NameNodes, once they were found out."""

    def __getstate__(self) -> dict[str, Any]:
        with contextlib.suppress(StoreError):  # a worker finds out what is wrong
            self.gateways  # noqa: B018  # workers have no Spark session to ask
        return self.__dict__

    @property
    def gateways(self) -> str:
        """The addresses of the NameNodes, separated by ``;``.

        Raises:
            StoreError: they cannot be found out.
        """
        if not self.known_gateways:
            self.known_gateways = gateways_of(self.url, hadoop_settings())
        return self.known_gateways

    @property
    def client(self) -> Any:
        """The client of this thread."""
        token = tokens.for_http()
        key = (os.getpid(), self.gateways, token)  # a forked child must not use its parent's connections
        if getattr(_local, "key", None) != key:
            _local.client, _local.key = _made(self.gateways, token), key
        return _local.client

    def _named(self, error: Exception) -> Exception:
        return RuntimeError(f"{getattr(error, 'exception', None) or type(error).__name__}: {error}")

    def is_file(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        with self.explained("look at", name):
            found = self._status(self.path(name))
            return found is not None and found["type"] == "FILE"

    def is_folder(self, name: str) -> bool:
        """Return whether there is a folder of this name."""
        with self.explained("look at", name):
            found = self._status(self.path(name))
            return found is not None and found["type"] == "DIRECTORY"

    def size(self, name: str) -> int | None:
        """Return the length of a file that the NameNode knows, or None if there is none."""
        with self.explained("look at", name):
            found = self._status(self.path(name))
            return None if found is None else int(found["length"])

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if there is none."""
        with self.explained("read", name):
            try:
                with self.client.read(self.path(name)) as file:
                    return bytes(file.read())
            except Exception as error:
                if _is(error, "FileNotFoundException"):
                    return None
                raise

    def read_part(self, name: str, start: int, end: int | None) -> bytes | None:
        """Return what a file has from byte ``start`` to before ``end``, as a slice does; None: there is none."""
        if start < 0 or end is None:
            size_bytes = self.size(name)
            if size_bytes is None:
                return None
            start, end, _ = slice(start, end).indices(size_bytes)
            if start >= end:
                return b""
        with self.explained("read", name):
            try:
                with self.client.read(self.path(name), offset=start, length=end - start) as file:
                    return bytes(file.read())
            except Exception as error:
                if _is(error, "FileNotFoundException"):
                    return None
                raise

    def blocks(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file in blocks."""
        with self.explained("read", name), self.client.read(self.path(name), chunk_size=_BLOCK) as chunks:
            yield from chunks

    def put(self, name: str, data: bytes) -> None:
        """Write a file in one piece; a reader may see a part of it."""
        with self.explained("write", name):
            self.client.write(self.path(name), data, overwrite=True)

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically: a reader sees the old content or the new."""
        with self.explained("write", name):
            self._move(self._temporary(data), name, "OVERWRITE")

    def create(self, name: str, data: bytes) -> bool:
        """Write a file that does not exist yet; return False if it does. Only one of several writers succeeds."""
        with self.explained("create", name):
            if self._status(self.path(name)) is not None:
                return False
            temporary = self._temporary(data)
            try:
                self._move(temporary, name, "NONE")
            except Exception as error:
                if _is(error, "FileAlreadyExistsException"):
                    self.client.delete(temporary)
                    return False
                raise
            return True

    def append(self, name: str, data: bytes) -> None:
        """Append to a file, made if absent, and close it."""
        with self.explained("append to", name):
            try:
                self.client.write(self.path(name), data, append=True)
            except Exception as error:
                if not _is(error, "FileNotFoundException"):
                    raise
                self.client.write(self.path(name), data, overwrite=False)

    def upload(self, local: Path, name: str) -> Content:
        """Copy a local file here, hashed meanwhile, and return what was copied."""
        if ":" in name or "#LATEST" in name:
            raise CheckpointError(
                f"The file {name.rpartition('/')[2]!r} of a checkpoint cannot be on HDFS, which takes no ':' in names,"
                " and no '#LATEST' over HTTP. Let save() give it another name."
            )
        size_bytes, digest = 0, new_digest()

        def blocks(source: BinaryIO) -> Iterator[bytes]:
            nonlocal size_bytes
            while block := source.read(_BLOCK):
                digest.update(block)
                size_bytes += len(block)
                yield block

        with self.explained("upload", name), open_to_read(local) as file:
            self.client.write(self.path(name), blocks(file), overwrite=True)
        return Content(size_bytes, digest.hexdigest())

    def download(self, name: str, local: Path) -> Content | None:
        """Copy a file from here to a local one, hashed meanwhile, and return what was copied; None: there is none."""
        size_bytes, digest = 0, new_digest()
        with self.explained("download", name):
            try:
                with self.client.read(self.path(name), chunk_size=_BLOCK) as chunks, open(local, "wb") as target:
                    for block in chunks:
                        digest.update(block)
                        size_bytes += target.write(block)
            except Exception as error:
                if _is(error, "FileNotFoundException"):
                    return None
                raise
        return Content(size_bytes, digest.hexdigest())

    def guard(self, name: str) -> threading.Lock:
        """Return the lock of a file in this process, the same one for every store that has the file."""
        return self._guard(self.gateways, name)

    def remove(self, name: str) -> None:
        """Remove a file; no error if there is none."""
        with self.explained("remove", name):
            self.client.delete(self.path(name))

    def remove_tree(self, folder: str) -> None:
        """Remove a folder with all that is in it; no error if there is none."""
        with self.explained("remove", folder):
            self.client.delete(self.path(folder), recursive=True)

    def remove_if_empty(self, folder: str) -> None:
        """Remove an empty folder."""
        with contextlib.suppress(Exception):  # it is not empty, or gone
            self.client.delete(self.path(folder))

    def list(self, folder: str) -> list[str]:
        """Return the sorted names directly in a folder."""
        with self.explained("list", folder):
            return sorted(name for name, _ in self._entries(self.path(folder)))

    def find(self, folder: str) -> dict[str, FileInfo]:
        """Return the files below a folder, at any depth, by their names inside it."""
        found: dict[str, FileInfo] = {}
        with self.explained("list", folder):
            due = [""]
            while due:
                inside = due.pop()
                for name, entry in self._entries(f"{self.path(folder)}/{inside}".rstrip("/")):
                    if entry["type"] == "DIRECTORY":
                        due.append(f"{inside}{name}/")
                    else:
                        found[inside + name] = FileInfo(int(entry["length"]), entry["modificationTime"] / 1000)
        return found

    def _entries(self, path: str) -> Sequence[tuple[str, Any]]:
        try:
            found: Sequence[tuple[str, Any]] = self.client.list(path or "/", status=True)
            return found
        except Exception as error:
            if _is(error, "FileNotFoundException") or str(error).endswith("is not a directory."):  # HdfsCLI's words
                return []
            raise

    def _status(self, path: str) -> Any:
        """Return what the NameNode knows of a file or folder; None: there is none.

        HdfsCLI's own way to ask for None takes every refusal for that, as one for a lack of rights.
        """
        try:
            return self.client.status(path)
        except Exception as error:
            if _is(error, "FileNotFoundException"):
                return None
            raise

    def _temporary(self, data: bytes) -> str:
        """Write a file under a name of its own, and return its path."""
        path = self.path(f"tmp/file-{uuid.uuid4().hex}")
        self.client.write(path, data)
        return path

    def _move(self, source: str, name: str, option: str) -> None:
        """Give a file its name. HdfsCLI's own rename neither replaces a file nor says why it fails."""
        target = self.path(name)
        try:
            self.client._rename(source, destination=target, renameoptions=option)
        except Exception as error:
            if not _is(error, "FileNotFoundException"):
                raise
            self.client.makedirs(target.rpartition("/")[0] or "/")
            self.client._rename(source, destination=target, renameoptions=option)


def _is(error: Exception, *kinds: str) -> bool:
    """Return whether an error is a Java exception of one of these names."""
    return getattr(error, "exception", None) in kinds


def _made(gateways: str, token: str | None) -> Any:
    import hdfs

    if token is not None:
        return hdfs.TokenClient(gateways, token, timeout=_TIMEOUT_S)
    settings = hadoop_settings()
    if settings.get("hadoop.security.authentication", "simple") == "kerberos":
        try:
            from hdfs.ext.kerberos import KerberosClient
        except ImportError as error:
            raise StoreError(
                f"A package for Kerberos over HTTP is missing: {error}. Install 'asyncsearch[kerberos]' with pip on the"
                " driver and on all workers, or use hdfs://, which needs none."
            ) from error
        return KerberosClient(gateways, timeout=_TIMEOUT_S)
    return hdfs.InsecureClient(gateways, user=os.environ.get("HADOOP_USER_NAME"), timeout=_TIMEOUT_S)
