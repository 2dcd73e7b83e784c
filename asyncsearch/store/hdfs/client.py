"""Connections to HDFS: one client for each cluster and process, which is never destroyed.

hdfs-native's client owns threads, and its destructor waits for them. A forked child has the client and not its threads:
a destructor that ran there would wait for ever, so that starting Spark, ``multiprocessing`` and a DataLoader's workers
would hang. Therefore every client, and in a child every open file too, gets a reference that nobody gives back. A child
cannot make clients of its own either: all of a process use the connections to DataNodes that any has left open, and
those of the parent answer nobody in the child.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

from asyncsearch.errors import StoreError
from asyncsearch.store.hdfs import tokens
from asyncsearch.store.hdfs.addresses import Address

_PATIENCE = {
    "dfs.client.failover.max.attempts": "3",
    "dfs.client.failover.sleep.base.millis": "100",
    "dfs.client.failover.sleep.max.millis": "500",
}
"""A call to a NameNode that is away fails within some seconds: who calls knows better how long to wait, and what to say
meanwhile. By itself hdfs-native blocks for three minutes."""


class _Clients:
    """The clients of this process, and the files that are open through them."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._clients: dict[Address, Any] = {}
        self._files: dict[int, Any] = {}
        self._is_childs = False
        """Whether the parent of this process had clients when it forked it."""

    def of(self, address: Address) -> Any:
        if self._is_childs:
            raise StoreError(
                f"{address.url!r} cannot be used in a process that was forked from one that used HDFS: hdfs-native "
                'does not survive a fork. Start it by "spawn", as in multiprocessing.get_context("spawn"), or use the '
                "store in the process that it was forked from."
            )
        with self._guard:
            client = self._clients.get(address)
            if client is None:
                client = self._clients[address] = _made(address)
                _keep_for_ever(client)
            return client

    def note_open(self, file: Any) -> None:
        self._files[id(file)] = file

    def note_closed(self, file: Any) -> None:
        self._files.pop(id(file), None)

    def leave_to_parent(self) -> None:
        """Forget in a forked child what it has inherited, and destroy nothing of it."""
        for file in self._files.values():
            _keep_for_ever(file)
        is_childs = self._is_childs or bool(self._clients)
        self.__init__()  # type: ignore[misc]  # another thread of the parent may hold the old lock
        self._is_childs = is_childs


_mine = _Clients()


def client_of(address: Address) -> Any:
    """Return this process's client of a cluster, a ``hdfs_native.Client``; any thread may call it.

    Raises:
        StoreError: hdfs-native is not installed, or cannot use the address.
    """
    return _mine.of(address)


def note_open(file: Any) -> None:
    """Note a writer, which no forked child may destroy, until ``note_closed``."""
    _mine.note_open(file)


def note_closed(file: Any) -> None:
    """Note that a writer was closed, or given up."""
    _mine.note_closed(file)


def _made(address: Address) -> Any:
    try:
        import hdfs_native
    except ImportError as error:
        raise StoreError(
            f"A package for {address.url!r} is missing: {error}. Install 'asyncsearch[hdfs]' with pip on the driver and"
            " on all workers, or choose another store."
        ) from error
    tokens.use_at(address)
    try:
        return hdfs_native.Client(address.url, _PATIENCE | dict(address.settings))
    except Exception as error:  # hdfs-native raises RuntimeError and others
        raise StoreError(f"Cannot connect to {address.url!r}: {error}. Check the address of the NameNode.") from error


def _keep_for_ever(thing: object) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mine.leave_to_parent)
