"""The delegation tokens of this process: those that its container came with, or that its driver has sent.

hdfs-native reads the file that HADOOP_TOKEN_FILE_LOCATION names at each new connection, so that renewed tokens only
have to be in it. The variable is set once, before the first connection: another thread may read the environment later.

The file has the format that Hadoop has always written: magic, a zero, and the tokens. A token is (identifier, password,
kind, service), each with its length before it. The service is the address at which it is valid, by Java's choice with
the number of the machine; hdfs-native looks for the name that is in the URL.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from asyncsearch.errors import StoreError
from asyncsearch.files.plain import read_file
from asyncsearch.store import scratch
from asyncsearch.store.hdfs.addresses import Address

_MAGIC = b"HDTS\0"
_OF_HDFS = b"HDFS_DELEGATION_TOKEN"


class Token(NamedTuple):
    """One token; ``alias`` is its name in the file."""

    alias: bytes
    identifier: bytes
    password: bytes
    kind: bytes
    service: bytes

    def __repr__(self) -> str:
        return f"Token({self.kind!r}, {self.service!r}, hidden)"


def read_tokens(data: bytes) -> list[Token]:
    """Return the tokens of a file.

    Raises:
        StoreError: it is none, or of a newer format.
    """
    if not data.startswith(_MAGIC):
        raise StoreError(
            "The file of delegation tokens is not one of Hadoop in its usual format. Let who wrote it use"
            " Credentials.writeTokenStorageToStream."
        )
    try:
        count, at = _number(data, len(_MAGIC))
        found = []
        for _ in range(count):
            parts = []
            for _ in Token._fields:
                length, at = _number(data, at)
                parts.append(data[at : at + length])
                at += length
            found.append(Token(*parts))
        if at > len(data):
            raise IndexError
    except IndexError:
        raise StoreError("The file of delegation tokens is cut off. Write it anew.") from None
    return found


def token_file(tokens: Iterable[Token]) -> bytes:
    """Return a file of these tokens."""
    written = [b"".join(map(_sized, token)) for token in tokens]
    return _MAGIC + _varint(len(written)) + b"".join(written) + _varint(0)


def named(data: bytes, addresses: Iterable[str], resolve: Callable[[str], str]) -> bytes:
    """Return the file with each token of HDFS also under those of the addresses, ``host:port``, that mean its service.

    Args:
        resolve: returns the number of a machine by its name.
    """
    tokens = read_tokens(data)
    known = {token.service for token in tokens if token.kind == _OF_HDFS}
    added = []
    for address in sorted(set(addresses)):
        host, _, port = address.rpartition(":")
        numbered = f"{resolve(host)}:{port}".encode()
        if address.encode() not in known:
            same = [token for token in tokens if token.kind == _OF_HDFS and token.service == numbered]
            added += [token._replace(alias=address.encode(), service=address.encode()) for token in same[:1]]
    return token_file([*tokens, *added]) if added else data


def _http_token(data: bytes) -> str | None:
    """Return the first token of HDFS as WebHDFS takes it in a URL; None if there is none."""
    for token in read_tokens(data):
        if token.kind == _OF_HDFS:
            return base64.urlsafe_b64encode(b"".join(map(_sized, token[1:]))).decode().rstrip("=")
    return None


def _sized(part: bytes) -> bytes:
    return _varint(len(part)) + part


def _varint(number: int) -> bytes:
    if number < 128:
        return bytes([number])
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return bytes([256 - 112 - len(data)]) + data


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a length and where it ends; Java writes how many bytes it has as a negative number before them."""
    first = data[at]
    if first < 128:
        return first, at + 1
    length = 256 - 112 - first
    if not 1 <= length <= 8:
        raise IndexError
    return int.from_bytes(data[at + 1 : at + 1 + length], "big"), at + 1 + length


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
            self._write(named(data, self._addresses, _number_of))

    def know(self, addresses: Iterable[str]) -> None:
        with self._guard:
            self._addresses.update(addresses)
            data = _present()
            if data is not None and (more := named(data, self._addresses, _number_of)) != data:
                self._write(more)

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
    return None if data is None else _http_token(data)


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
