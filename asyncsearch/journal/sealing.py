"""Checksums inside JSON: a first field ``crc``, the CRC-32 of what follows it. Pure.

{"crc":"6b1f7c02","n":17,"t":1795244400.25,...}
"""

from __future__ import annotations

import zlib

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
