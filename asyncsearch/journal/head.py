"""Checksums of a journal's lines, and its head: the last durable record, noted outside it. Pure.

A sealed line is JSON with a first field ``crc``, the CRC-32 of the bytes after it:

{"crc":"6b1f7c02","n":17,"t":1795244400.25,...}

Lines that are cut off at the end of a journal leave a shorter one that is whole. ``head.json`` says how far it went: it
is written after each sync, without a sync of its own, and so never names a record that was not durable. A crash of the
machine may leave an older head, which claims less; it never claims too much.
"""

from __future__ import annotations

import zlib

import msgspec

from asyncsearch.files import decoded

_WIDTH = 128
"""Bytes of the file: it is overwritten in place, in one sector of the disk."""


class Head(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last record that was made durable."""

    n: int
    """Its number."""
    record: str
    """Its checksum."""
    segment: str
    """The segment that has it."""
    swept: bool = False
    """Whether the run that wrote it has removed, at its end, what nobody needs."""


_HEAD = msgspec.json.Decoder(Head)


def head_of(lines: bytes, segment: str) -> Head:
    """Return the head after sealed records were appended to a segment."""
    last = lines[lines.rfind(b"\n", 0, -1) + 1 :]
    # 22 is behind {"crc":"6b1f7c02","n":
    return Head(int(last[22 : last.index(b",", 22)]), checksum_of(last), segment)


def encode_head(head: Head) -> bytes:
    """Return the content of ``head.json``, always equally long."""
    return seal(msgspec.json.encode(head)).removesuffix(b"\n").ljust(_WIDTH - 1) + b"\n"


def decode_head(data: bytes) -> Head | None:
    """Return the head, or None if the file is damaged."""
    body = unseal(data.partition(b"\n")[0].rstrip() + b"\n")
    return None if body is None else decoded(_HEAD, body)


_START = b'{"crc":"'
_BODY_AT = 18
_FILE_START = b'{\n  "crc": "'
_FILE_BODY_AT = 23


def seal(body: bytes) -> bytes:
    """Return the line that holds a JSON object and its checksum."""
    rest = body[1:]
    return b'{"crc":"%08x",%b\n' % (zlib.crc32(rest), rest)


def unseal(line: bytes) -> bytes | None:
    """Return the object in a complete and undamaged line, else None."""
    if not line.startswith(_START) or not line.endswith(b"}\n") or line[16:_BODY_AT] != b'",':
        return None
    rest = line[_BODY_AT:-1]
    return b"{" + rest if line[8:16] == b"%08x" % zlib.crc32(rest) else None


def unseal_unended(line: bytes) -> bytes | None:
    """Return the object in a line that is whole except for its newline, which is absent or another byte; else None."""
    return unseal(line + b"\n") or unseal(line[:-1] + b"\n")


def checksum_of(line: bytes) -> str:
    """Return the checksum that a sealed line begins with."""
    return line[8:16].decode()


def is_sealed(data: bytes) -> bool:
    """Return whether data begins as a sealed line does."""
    return data.startswith(_START)


def seal_file(text: bytes) -> bytes:
    """Return an indented JSON object, which is for people, with its checksum on the second line."""
    rest = text.removeprefix(b"{\n").rstrip()
    return b'{\n  "crc": "%08x",\n%b\n' % (zlib.crc32(rest), rest)


def is_file_sealed(data: bytes) -> bool:
    """Return whether an indented JSON object begins with a checksum."""
    return data.startswith(_FILE_START)


def is_file_whole(data: bytes) -> bool:
    """Return whether an indented JSON object is the one that its checksum was made of."""
    rest = data[_FILE_BODY_AT:].rstrip()
    return data[12:_FILE_BODY_AT] == b'%08x",\n' % zlib.crc32(rest)
