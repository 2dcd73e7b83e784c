"""The delegation tokens of this process: those that its container came with, or that its driver has sent.

hdfs-native reads the file that HADOOP_TOKEN_FILE_LOCATION names at each new connection, so that renewed tokens only
have to be in it. The variable is set once, before the first connection: another thread may read the environment later.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
from collections.abc import Iterable
from pathlib import Path

from asyncsearch.files.plain import read_file
from asyncsearch.store import scratch
from asyncsearch.store.hdfs import token_file
from asyncsearch.store.hdfs.addresses import Address

LOCATION = "HADOOP_TOKEN_FILE_LOCATION"
_HOST_AND_PORT = re.compile(r"[\w.-]+:\d+")


class _Tokens:
    """The tokens of this process, for all its stores."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._addresses: set[str] = set()
        """Of the NameNodes that this process connects to, as URLs and settings name them."""
        self._file: Path | None = None
        """Of this process alone; None means the one that it came with."""
        self._former: str | None = None

    def use(self, data: bytes) -> None:
        with self._guard:
            self._write(token_file.named(data, self._addresses, _number_of))

    def know(self, addresses: Iterable[str]) -> None:
        with self._guard:
            self._addresses.update(addresses)
            data = _present()
            if data is not None and (named := token_file.named(data, self._addresses, _number_of)) != data:
                self._write(named)

    def drop(self) -> None:
        with self._guard:
            if self._file is None:
                return
            os.environ.pop(LOCATION, None)
            if self._former is not None:
                os.environ[LOCATION] = self._former
            self._file.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self._file.parent.rmdir()
            self._file = None

    def _write(self, data: bytes) -> None:
        if self._file is None:
            self._file = scratch.make_folder("tokens") / "tokens"
            self._former = os.environ.get(LOCATION)
        written = self._file.with_suffix(".new")
        with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
        written.replace(self._file)
        if os.environ.get(LOCATION) != str(self._file):
            os.environ[LOCATION] = str(self._file)


_mine = _Tokens()


def use(data: bytes) -> None:
    """Use these tokens from the next connection on, instead of those that were there.

    Args:
        data: a file of tokens, as Hadoop writes it.

    Raises:
        StoreError: it is none.
    """
    _mine.use(data)


def use_at(address: Address) -> None:
    """Let the tokens be found under the names by which a cluster is reached.

    Raises:
        StoreError: the file of tokens is damaged.
    """
    places = [address.url, *(value for key, value in address.settings if "address" in key or "mounttable" in key)]
    _mine.know(found for place in places for found in _HOST_AND_PORT.findall(place))


def drop() -> None:
    """Forget the tokens that came by ``use``, and be as before."""
    _mine.drop()


def for_http() -> str | None:
    """Return the token for WebHDFS; None if this process has none.

    Raises:
        StoreError: the file of tokens is damaged.
    """
    data = _present()
    return None if data is None else token_file.for_http(data)


def _present() -> bytes | None:
    try:
        return read_file(os.environ[LOCATION])
    except (KeyError, OSError):
        return None


def _number_of(host: str) -> str:
    try:
        return socket.gethostbyname(host)
    except OSError:  # then no token is for it
        return host
