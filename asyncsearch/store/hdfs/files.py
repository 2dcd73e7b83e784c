"""Files below an ``hdfs://`` URL: what a store does with them, with StoreErrors as errors.

A file is written under another name and renamed, so that a reader sees all of it or none. A file that is open for
writing cannot be read: hdfs-native takes it for an empty one. Therefore the length that the NameNode gives is compared
with what is read.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from asyncsearch.errors import BeingWrittenError, CheckpointError, StoreError
from asyncsearch.files.contents import Content, new_digest
from asyncsearch.files.plain import open_to_read
from asyncsearch.store.base_store import FileInfo
from asyncsearch.store.hdfs.addresses import Address, address_of, hadoop_settings
from asyncsearch.store.hdfs.bounded import Bounded, call
from asyncsearch.store.hdfs.client import client_of
from asyncsearch.store.hdfs.hadoop_files import HadoopFiles
from asyncsearch.store.hdfs.open_file import OpenFile
from asyncsearch.store.hdfs.reading import read_ahead

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

    def is_file(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        with self.explained("look at", name):
            try:
                return not self.client.get_file_info(self.path(name)).isdir
            except FileNotFoundError:
                return False

    def is_folder(self, name: str) -> bool:
        """Return whether there is a folder of this name."""
        with self.explained("look at", name):
            try:
                return bool(self.client.get_file_info(self.path(name)).isdir)
            except FileNotFoundError:
                return False

    def size(self, name: str) -> int | None:
        """Return the length of a file that the NameNode knows, or None if there is none."""
        with self.explained("look at", name):
            try:
                return int(self.client.get_file_info(self.path(name)).length)
            except FileNotFoundError:
                return None

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if there is none."""
        with self.explained("read", name):
            try:
                return bytes(Bounded(self.client.read(self.path(name))).read(-1))
            except FileNotFoundError:
                return None

    def blocks(self, name: str) -> Iterator[bytes]:
        """Yield what can be read of a file, in blocks; see ``size`` for what there should be."""
        with self.explained("read", name):
            yield from read_ahead(self.client.read(self.path(name)))

    def read_part(self, name: str, start: int, end: int | None) -> bytes | None:
        """Return what a file has from byte ``start`` to before ``end``, as a slice does; None: there is none.

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
            if self._move(temporary, name, overwrite=False):
                return True
            self.client.delete(temporary, False)
            return False

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
        """Copy a local file here, hashed meanwhile, and return what was copied."""
        if ":" in name:
            raise CheckpointError(
                f"The file {name.rpartition('/')[2]!r} of a checkpoint cannot be on HDFS, which takes no ':' in names."
                " Let save() give it another name."
            )
        with self.explained("upload", name), open_to_read(local) as source:
            return self._created(self.path(name), overwrite=True).copy_and_close(source)

    def download(self, name: str, local: Path) -> Content | None:
        """Copy a file from here to a local one, hashed meanwhile, and return what was copied; None: there is none."""
        size_bytes, digest = 0, new_digest()
        with self.explained("download", name):
            try:
                source = self.client.read(self.path(name))
            except FileNotFoundError:
                return None
            with open(local, "wb") as target:
                for block in read_ahead(source):
                    digest.update(block)
                    size_bytes += target.write(block)
        return Content(size_bytes, digest.hexdigest())

    def guard(self, name: str) -> threading.Lock:
        """Return the lock of a file in this process, the same one for every store that has the file."""
        return self._guard(self.address.url, name)

    def remove(self, name: str) -> None:
        """Remove a file; no error if there is none."""
        with self.explained("remove", name), contextlib.suppress(FileNotFoundError):
            self.client.delete(self.path(name), False)

    def remove_tree(self, folder: str) -> None:
        """Remove a folder with all that is in it; no error if there is none."""
        with self.explained("remove", folder), contextlib.suppress(FileNotFoundError):
            self.client.delete(self.path(folder), True)

    def remove_if_empty(self, folder: str) -> None:
        """Remove an empty folder."""
        with contextlib.suppress(Exception):  # it is not empty, or gone
            if not self._entries(self.path(folder), False):
                self.client.delete(self.path(folder), False)

    def list(self, folder: str) -> list[str]:
        """Return the sorted names directly in a folder."""
        path = self.path(folder)
        with self.explained("list", folder):
            try:
                found = [str(entry.path) for entry in self._entries(path, False)]
            except FileNotFoundError:
                return []
        return sorted(entry.rpartition("/")[2] for entry in found if entry != path)

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
            entry.path.removeprefix(start): FileInfo(int(entry.length), entry.modification_time / 1000)
            for entry in found
            if entry.path.startswith(start)
        }

    def _entries(self, path: str, is_recursive: bool) -> Sequence[Any]:
        client = client_of(self.address).inner
        return call(lambda: list(client.list_status(path, is_recursive)))

    def _temporary(self, data: bytes) -> str:
        """Write a file under a name of its own, and return its path."""
        path = self.path(f"tmp/file-{uuid.uuid4().hex}")
        self._created(path).write_and_close(data)
        return path

    def _move(self, source: str, name: str, *, overwrite: bool) -> bool:
        """Give a file its name; return False if another one has it.

        After a failover hdfs-native repeats a call that was carried out already: then the source is gone.
        """
        target = self.path(name)
        for is_last in (False, True):
            try:
                self.client.rename(source, target, overwrite)
                return True
            except FileExistsError:
                return not self._exists(source)
            except FileNotFoundError:
                if not self._exists(source):
                    return True
                if is_last:
                    raise
                self.client.mkdirs(target.rpartition("/")[0] or "/", 0o755, True)
        raise AssertionError("the last try returns or raises")

    def _exists(self, path: str) -> bool:
        try:
            self.client.get_file_info(path)
        except FileNotFoundError:
            return False
        return True

    def _is_closed(self, name: str) -> bool:
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            return bool(self.client.recover_lease(self.path(name)))
        return True

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


def _options(overwrite: bool = False) -> Any:
    import hdfs_native

    return hdfs_native.WriteOptions(permission=0o644, overwrite=overwrite, create_parent=True)
