"""Files of delegation tokens, in the format that Hadoop has always written: magic, a zero, and the tokens. Pure.

A token is (identifier, password, kind, service), each with its length before it. The service is the address at which
it is valid, by Java's choice with the number of the machine; hdfs-native looks for the name that is in the URL.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import NamedTuple

from asyncsearch.errors import StoreError

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


def parse(data: bytes) -> list[Token]:
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


def write(tokens: Iterable[Token]) -> bytes:
    """Return a file of these tokens."""
    written = [b"".join(map(_sized, token)) for token in tokens]
    return _MAGIC + _varint(len(written)) + b"".join(written) + _varint(0)


def named(data: bytes, addresses: Iterable[str], resolve: Callable[[str], str]) -> bytes:
    """Return the file with each token of HDFS also under those of the addresses, ``host:port``, that mean its service.

    Args:
        resolve: returns the number of a machine by its name.
    """
    tokens = parse(data)
    known = {token.service for token in tokens if token.kind == _OF_HDFS}
    added = []
    for address in sorted(set(addresses)):
        host, _, port = address.rpartition(":")
        numbered = f"{resolve(host)}:{port}".encode()
        if address.encode() not in known:
            same = [token for token in tokens if token.kind == _OF_HDFS and token.service == numbered]
            added += [token._replace(alias=address.encode(), service=address.encode()) for token in same[:1]]
    return write([*tokens, *added]) if added else data


def for_http(data: bytes) -> str | None:
    """Return the first token of HDFS as WebHDFS takes it in a URL; None if there is none."""
    for token in parse(data):
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
