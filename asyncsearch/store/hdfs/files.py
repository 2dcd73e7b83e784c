"""Files below an ``hdfs://`` URL, through hdfs-native, with StoreErrors as errors.

A file that is open for writing cannot be read: hdfs-native takes it for an empty one. Therefore the length that the
NameNode gives is compared with the bytes that are read.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from asyncsearch.errors import BeingWrittenError, CheckpointError, StoreError
from asyncsearch.files.contents import Content
from asyncsearch.files.plain import open_to_read
from asyncsearch.store.base_store import FileInfo
from asyncsearch.store.hdfs.addresses import Address, address_of, hadoop_settings
from asyncsearch.store.hdfs.client import client_of
from asyncsearch.store.hdfs.hadoop_files import HadoopFiles, HadoopStatus, plain
from asyncsearch.store.hdfs.open_file import Bounded, OpenFile, call, read_ahead

T = TypeVar("T")
_log = logging.getLogger(__name__)
_RECOVERY_S = 120.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


class HdfsFiles(HadoopFiles):
    """The files below a URL. It holds no connection: each process has one client for each cluster."""

    def __init__(self, url: str, address: Address | None = None) -> None:
        super().__init__(url)
        self.known_address = address
        """The cluster, once it was found out."""

    def __getstate__(self) -> dict[str, Any]:
        with contextlib.suppress(StoreError):  # a worker finds out what is wrong
            self.address  # noqa: B018  # workers have no Spark session to ask
        return self.__dict__

    @property
    def address(self) -> Address:
        """The cluster.

        Raises:
            StoreError: it cannot be found out.
        """
        if self.known_address is None:
            self.known_address = address_of(self.url, hadoop_settings())
        return self.known_address

    @property
    def client(self) -> Any:
        """The client of this process; each call of it ends within a time."""
        return Bounded(client_of(self.address).inner)

    def read_part(self, name: str, start: int, end: int | None) -> bytes | None:
        """Return the bytes of a file from ``start`` to before ``end``, as a slice does; None if there is none.

        Raises:
            BeingWrittenError: it is open for writing, or its writer has died.
        """
        with self.explained("read", name):
            try:
                reader = Bounded(self.client.read(self.path(name)))
            except FileNotFoundError:
                return None
            size_bytes = int(reader.file_length())
            first, stop, _ = slice(start, end).indices(size_bytes)
            if first < stop:
                return bytes(reader.read_range(first, stop - first))
        if size_bytes < (self.size(name) or 0):
            raise BeingWrittenError(
                f"{f'{self.shown}/{name}'!r} is being written, or its driver has died: HDFS shows it once it is closed."
            )
        return b""

    def open_new(self, name: str) -> OpenFile | None:
        """Begin a file that does not exist yet, to be written on; return None if it does."""
        with self.explained("create", name):
            try:
                return self._created(self.path(name))
            except FileExistsError:
                return None

    def recover(self, name: str) -> None:
        """Close a file that its writer has left open, or still has open: it can write nothing more into it.

        Raises:
            StoreError: HDFS has not closed it after two minutes.
        """
        deadline = time.monotonic() + _RECOVERY_S
        pause_s = _FIRST_PAUSE_S
        with self.explained("close", name):
            while not self._is_closed(name):
                if time.monotonic() > deadline:
                    raise StoreError(
                        f"HDFS could not close {f'{self.shown}/{name}'!r}, which its writer has left open, within"
                        f" {_RECOVERY_S:g} s: DataNodes with its last block are away. Start them, then try again."
                    )
                time.sleep(pause_s)  # HDFS tells nobody when it is done
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def begin_to_close(self, name: str) -> None:
        """Ask HDFS to close a file that could not be closed, and do not wait for it; no error."""
        with contextlib.suppress(Exception):
            self._is_closed(name)

    def upload(self, local: Path, name: str) -> Content:
        """Copy a local file here, hashed meanwhile, and return its content."""
        if ":" in name:
            raise CheckpointError(
                f"The file {name.rpartition('/')[2]!r} of a checkpoint cannot be on HDFS, which takes no ':' in names."
                " Let save() give it another name."
            )

        def copy(file: OpenFile) -> Content:
            source.seek(0)
            return file.copy_and_close(source)

        with self.explained("upload", name), open_to_read(local) as source:
            return self._rewritten(self.path(name), copy)

    def write_in_place(self, name: str, data: bytes) -> None:
        with self.explained("write", name):
            self._rewritten(self.path(name), lambda file: file.write_and_close(data))

    def find(self, folder: str) -> dict[str, FileInfo]:
        """Return the files below a folder, at any depth, by their names inside it."""
        path = self.path(folder)
        with self.explained("list", folder):
            try:
                found = [entry for entry in self._entries(path, True) if not entry.isdir]
            except FileNotFoundError:
                return {}
        start = f"{path.rstrip('/')}/"
        return {
            entry.path.removeprefix(start): _status_of(entry).info for entry in found if entry.path.startswith(start)
        }

    # Calls of the client

    def _status(self, path: str) -> HadoopStatus:
        return _status_of(self.client.get_file_info(path))

    def _content(self, path: str) -> bytes:
        return bytes(Bounded(self.client.read(path)).read(-1))

    def _blocks(self, path: str) -> Iterator[bytes]:
        return read_ahead(self.client.read(path))

    def _write_new(self, path: str, data: bytes) -> None:
        self._created(path).write_and_close(data)

    def _rename(self, source: str, target: str, *, overwrite: bool) -> None:
        try:
            self.client.rename(source, target, overwrite)
        except (FileExistsError, FileNotFoundError):
            # After a failover hdfs-native repeats a call that was carried out already: then the source is gone.
            if self._exists(source):
                raise

    def _make_folder(self, path: str) -> None:
        self.client.mkdirs(path, 0o755, True)

    def _delete(self, path: str, *, recursive: bool = False) -> None:
        self.client.delete(path, recursive)

    def _children(self, path: str) -> dict[str, HadoopStatus]:
        found = self._entries(path, False)  # a file is its own only entry
        return {entry.path.rpartition("/")[2]: _status_of(entry) for entry in found if entry.path != path}

    def _entries(self, path: str, is_recursive: bool) -> Sequence[Any]:
        client = client_of(self.address).inner
        return call(lambda: list(client.list_status(path, is_recursive)))

    def _is_closed(self, name: str) -> bool:
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            return bool(self.client.recover_lease(self.path(name)))
        return True

    def _rewritten(self, path: str, write: Callable[[OpenFile], T]) -> T:
        """Write a whole file in place of one that may be there, and once more where a DataNode broke it off.

        hdfs-native fails where a block's DataNodes refuse it; Hadoop's own client asks the NameNode for others.
        """
        try:
            return write(self._created(path, overwrite=True))
        except Exception as error:
            if "DataTransferError" not in plain(error):
                raise
            _log.debug("Writing %r again: %s", path, error)
        return write(self._created(path, overwrite=True))

    def _created(self, path: str, overwrite: bool = False) -> OpenFile:
        return OpenFile(self.client.create(path, _options(overwrite)), functools.partial(self._finish, path))

    def _finish(self, path: str, size_bytes: int) -> bool:
        """Close a file at the NameNode if all of it can be read; return whether it did.

        A reader is not told of a last block that no DataNode has reported. With such a block, the recovery of the lease
        would not close the file but break off its writer.
        """
        if self.client.read(path).file_length() < size_bytes:
            return False
        return bool(self.client.recover_lease(path))


def _status_of(entry: Any) -> HadoopStatus:
    return HadoopStatus(bool(entry.isdir), int(entry.length), entry.modification_time)


def _options(overwrite: bool = False) -> Any:
    import hdfs_native

    return hdfs_native.WriteOptions(permission=0o644, overwrite=overwrite, create_parent=True)
