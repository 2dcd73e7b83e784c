"""A study's folder on HDFS over HTTP: a ``webhdfs://`` or ``swebhdfs://`` URL, by the package ``hdfs`` (HdfsCLI).

WebHDFS has neither an open file that is synced nor the recovery of a lease: an append opens the file, writes and closes
it, and the bytes are then in the memory of the DataNodes. Besides the guarantees of asyncsearch.store.far.store:

* A small file is replaced atomically, and of several processes that create one, exactly one succeeds.
* A journal segment is one file, which each append opens and closes. What was appended survives the death of any
  process, and of one DataNode of several; the DataNodes have it in memory, not on their disks.
* A driver that was stopped for longer than its lease finds out before it acknowledges anything; what it wrote by then
  does not count, since the segment of the driver that took over says where it begins.
* What is read is compared with the length that the NameNode gives: less is an error.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from asyncsearch.errors import BeingWrittenError, CheckpointError, JournalDamagedError, StoreError
from asyncsearch.files.contents import Content, ContentCounter
from asyncsearch.files.plain import open_to_read
from asyncsearch.store.base_store import FileInfo, Store
from asyncsearch.store.blocks import BLOCK_BYTES, counted
from asyncsearch.store.far.store import AppendingStore
from asyncsearch.store.hdfs import tokens
from asyncsearch.store.hdfs.addresses import gateways_of, hadoop_settings, parse
from asyncsearch.store.hdfs.hadoop_files import HadoopFiles, HadoopStatus

_TIMEOUT_S = (10.0, 120.0)
"""To connect, and to wait for an answer."""


class _Connections(threading.local):
    """The client of each thread: requests does not promise that threads may share one."""

    client: Any = None
    _key: tuple[int, str, str | None] | None = None

    def to(self, gateways: str) -> Any:
        """Return the client of this thread for some gateways, made anew where it is another's."""
        token = tokens.for_http()
        key = (os.getpid(), gateways, token)  # a forked child must not use its parent's connections
        if self._key != key:
            self.client, self._key = _made(gateways, token), key
        return self.client


_connections = _Connections()


class WebHdfsFiles(HadoopFiles):
    """The files below a URL. It holds no connection."""

    can_append = True

    def __init__(self, url: str, gateways: str = "") -> None:
        if "#LATEST" in url:
            raise StoreError(f"{url!r} cannot be a path for HdfsCLI, which replaces '#LATEST'. Choose another name.")
        super().__init__(url)
        self.known_gateways = gateways
        """The addresses of the NameNodes, once they were found out."""

    def remove_files(self, names: Sequence[str]) -> None:
        """Remove files: it has no request for several."""
        for name in names:
            self.remove(name)

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
        return _connections.to(self.gateways)

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

    def write_in_place(self, name: str, data: bytes) -> None:
        self.put(name, data)

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


class WebHdfsStore(AppendingStore):
    """One study's folder at a ``webhdfs://`` or ``swebhdfs://`` URL.

    Args:
        url: such as ``webhdfs://namenode:9870/studies/digits``.
        gateways: addresses of the NameNodes; empty means as the URL says, Spark's Hadoop configuration or
            HADOOP_CONF_DIR.
        lock_lease_s: seconds without a refresh after which a driver on another machine loses its lock.
    """

    _remote: WebHdfsFiles

    def __init__(self, url: str, gateways: str = "", *, lock_lease_s: float = 60.0) -> None:
        super().__init__(lock_lease_s)
        self._remote = WebHdfsFiles(url, gateways)

    def at(self, url: str) -> Store:
        is_same = parse(url)[:2] == parse(self.url)[:2]  # a worker cannot find the address out again
        return WebHdfsStore(url, self._remote.known_gateways if is_same else "", lock_lease_s=self._lease_s)

    def read_segment(self, name: str) -> Iterator[bytes]:
        return self._compared(name, super().read_segment(name))

    def _compared(self, name: str, lines: Iterator[bytes]) -> Iterator[bytes]:
        size_bytes, read = self._remote.size(f"journal/{name}") or 0, 0
        for line in lines:
            read += len(line)
            yield line
        if read < size_bytes:
            words = f"Of journal segment {name} of {self.shown!r} {read:,} of {size_bytes:,} bytes can be read."
            if self._lock is None:
                raise BeingWrittenError(f"{words} Try again in a moment.")
            raise JournalDamagedError(
                f"{words} If its driver was killed a moment ago, try again in a minute; else see whether all DataNodes"
                " run, hdfs fsck."
            )
