"""The head of a journal: its last durable record, noted outside it, so that a missing end is found. Pure.

Lines that are cut off at the end of a journal leave a shorter one that is whole. ``head.json`` says how far it went: it
is written after each sync, without a sync of its own, and so never names a record that was not durable. A crash of the
machine may leave an older head, which claims less; it never claims too much.
"""

from __future__ import annotations

import msgspec

from asyncsearch.files.decoding import decoded
from asyncsearch.journal.sealing import checksum_of, seal, unseal

_WIDTH = 128
"""Bytes of the file: it is overwritten in place, in one sector of the disk."""


class Head(msgspec.Struct, frozen=True):
    """The last record that was made durable."""

    n: int
    """Its number."""
    record: str
    """Its checksum."""
    segment: str
    """The segment that has it."""


_HEAD = msgspec.json.Decoder(Head)


def head_of(lines: bytes, segment: str) -> Head:
    """Return the head after sealed records were appended to a segment."""
    last = lines[lines.rfind(b"\n", 0, -1) + 1 :]
    return Head(int(last[22 : last.index(b",", 22)]), checksum_of(last), segment)


def encode_head(head: Head) -> bytes:
    """Return the content of ``head.json``, always equally long."""
    return seal(msgspec.json.encode(head)).removesuffix(b"\n").ljust(_WIDTH - 1) + b"\n"


def decode_head(data: bytes) -> Head | None:
    """Return the head, or None if the file is damaged."""
    body = unseal(data.partition(b"\n")[0].rstrip() + b"\n")
    return None if body is None else decoded(_HEAD, body)
