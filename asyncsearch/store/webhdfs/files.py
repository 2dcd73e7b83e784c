"""Files below a ``webhdfs://`` or ``swebhdfs://`` URL, through the package ``hdfs`` (HdfsCLI).

WebHDFS has neither an open file that is synced nor the recovery of a lease: an append opens the file, writes and closes
it, and the bytes are then in the memory of the DataNodes.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from asyncsearch.errors import CheckpointError, StoreError
from asyncsearch.files.contents import Content, ContentCounter
from asyncsearch.files.plain import open_to_read
from asyncsearch.store.base_store import FileInfo
from asyncsearch.store.blocks import BLOCK_BYTES, counted
from asyncsearch.store.hdfs import tokens
from asyncsearch.store.hdfs.addresses import gateways_of, hadoop_settings
from asyncsearch.store.hdfs.hadoop_files import HadoopFiles, HadoopStatus

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

    def read_part(self, name: str, start: int, end: int | None) -> bytes | None:
        """Return the bytes of a file from ``start`` to before ``end``, as a slice does; None if there is none."""
        if start < 0 or end is None:
            size_bytes = self.size(name)
            if size_bytes is None:
                return None
            start, end, _ = slice(start, end).indices(size_bytes)
            if start >= end:
                return b""
        with self.explained("read", name), contextlib.suppress(FileNotFoundError):
            return self._content(self.path(name), offset=start, length=end - start)
        return None

    def put(self, name: str, data: bytes) -> None:
        """Write a file in one piece; a reader may see a part of it."""
        with self.explained("write", name):
            self.client.write(self.path(name), data, overwrite=True)

    def append(self, name: str, data: bytes) -> None:
        """Append to a file, made if absent, and close it."""
        with self.explained("append to", name):
            try:
                with _python_errors():
                    self.client.write(self.path(name), data, append=True)
            except FileNotFoundError:
                self.client.write(self.path(name), data, overwrite=False)

    def upload(self, local: Path, name: str) -> Content:
        """Copy a local file here, hashed meanwhile, and return its content."""
        if ":" in name or "#LATEST" in name:
            raise CheckpointError(
                f"The file {name.rpartition('/')[2]!r} of a checkpoint cannot be on HDFS, which takes no ':' in names,"
                " and no '#LATEST' over HTTP. Let save() give it another name."
            )
        counter = ContentCounter()
        with self.explained("upload", name), open_to_read(local) as file:
            self.client.write(self.path(name), counted(file, counter), overwrite=True)
        return counter.content

    def find(self, folder: str) -> dict[str, FileInfo]:
        """Return the files below a folder, at any depth, by their names inside it."""
        found: dict[str, FileInfo] = {}
        with self.explained("list", folder):
            due = [""]
            while due:
                inside = due.pop()
                with contextlib.suppress(FileNotFoundError):  # the folder, or one that was removed meanwhile
                    for name, entry in self._children(f"{self.path(folder)}/{inside}".rstrip("/") or "/").items():
                        if entry.is_folder:
                            due.append(f"{inside}{name}/")
                        else:
                            found[inside + name] = entry.info
        return found

    # Calls of the client

    def _status(self, path: str) -> HadoopStatus:
        # HdfsCLI's own question whether there is a file takes every refusal for no, as one for a lack of rights.
        with _python_errors():
            return _status_of(self.client.status(path))

    def _content(self, path: str, **part: int) -> bytes:
        with _python_errors(), self.client.read(path, **part) as file:
            return bytes(file.read())

    def _blocks(self, path: str) -> Iterator[bytes]:
        with _python_errors(), self.client.read(path, chunk_size=BLOCK_BYTES) as chunks:
            yield from chunks

    def _write_new(self, path: str, data: bytes) -> None:
        self.client.write(path, data)

    def _rename(self, source: str, target: str, *, overwrite: bool) -> None:
        # HdfsCLI's own rename neither replaces a file nor says why it fails.
        with _python_errors():
            self.client._rename(source, destination=target, renameoptions="OVERWRITE" if overwrite else "NONE")

    def _make_folder(self, path: str) -> None:
        self.client.makedirs(path)

    def _delete(self, path: str, *, recursive: bool = False) -> None:
        self.client.delete(path, recursive=recursive)

    def _children(self, path: str) -> dict[str, HadoopStatus]:
        try:
            with _python_errors():
                return {name: _status_of(entry) for name, entry in self.client.list(path, status=True)}
        except Exception as error:
            if str(error).endswith("is not a directory."):  # HdfsCLI's words
                return {}
            raise


def _status_of(entry: Any) -> HadoopStatus:
    return HadoopStatus(entry["type"] == "DIRECTORY", int(entry["length"]), entry["modificationTime"])


_PYTHON_ERRORS = {"FileNotFoundException": FileNotFoundError, "FileAlreadyExistsException": FileExistsError}


@contextlib.contextmanager
def _python_errors() -> Iterator[None]:
    """Raise Java's exceptions that Python knows as Python's; ``exception`` remains their Java name."""
    try:
        yield
    except Exception as error:
        kind: Any = _PYTHON_ERRORS.get(name := getattr(error, "exception", ""))
        if kind is None:
            raise
        found = kind(str(error))
        found.exception = name
        raise found from error


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
