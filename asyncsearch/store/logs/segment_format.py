"""A segment of a study's logs: the lines of all trials that one driver wrote for a time, and where each trial's are.

    asyncsearch-log 1 9f2c41d07a3b5e68                                  the driver
    @ {"n":7,"bytes":62,"trials":{"trial-0":[31,"5b1e77aa"], ...}} 9c0d11f2
    1.000 O lines of trial-0                                            31 bytes, of this checksum
    1.000 O lines of trial-4
    @ {"n":8, ...} 1f00ab3c                                             the next block
    # {"driver":"9f2c...","trials":{"trial-0":[[7,112,31,"5b1e77aa"], ...], ...}} 77ab01cd   the index, once closed
    #end 000000000391                                                   where the index begins

A block is what was written at once: it is there as a whole, or its driver was killed and acknowledged nothing of it.
One that was written again, because it was unknown whether it had arrived, has the same number. Pure: no files.
"""

from __future__ import annotations

import json
import re
import uuid
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

MAGIC = b"asyncsearch-log 1 "
HEAD_BYTES = len(MAGIC) + 17
"""Length of the first line."""
END_BYTES = len(b"#end 000000000000\n")
"""Length of the last line of a closed segment."""
_HEAD = re.compile(rb"asyncsearch-log 1 ([0-9a-f]{16})\n")
_END = re.compile(rb"#end (\d{12})\n")
_BLOCK, _INDEX = b"@", b"#"


class LogPart(NamedTuple):
    """The lines of one trial in one block."""

    number: int
    """Of the block, counted by its driver from 1."""
    start: int
    """Where they begin in the segment."""
    size_bytes: int
    crc: str

    @property
    def end(self) -> int:
        return self.start + self.size_bytes

    def is_whole(self, data: bytes) -> bool:
        """Return whether these are the bytes that were written."""
        return len(data) == self.size_bytes and crc_of(data) == self.crc


class LogBlock(NamedTuple):
    """The first line of a block."""

    number: int
    parts: Mapping[str, LogPart]
    end: int
    """Where the next block begins in the segment."""


class LogIndex(NamedTuple):
    """The places of each trial's lines in a closed segment."""

    driver: str
    trials: Mapping[str, list[list[Any]]]

    def parts(self, name: str) -> list[LogPart]:
        """Return the parts of a trial, in order."""
        return [LogPart(*one) for one in self.trials.get(name, ())]


def new_driver() -> str:
    """Return the name of a driver, of 16 characters."""
    return uuid.uuid4().hex[:16]


def encode_head(driver: str) -> bytes:
    """Return the first line of a segment."""
    return MAGIC + driver.encode() + b"\n"


def decode_head(data: bytes) -> str | None:
    """Return the driver that wrote a segment; None if it does not begin as one."""
    found = _HEAD.match(data)
    return None if found is None else found[1].decode()


def encode_block(number: int, lines: Mapping[str, bytes]) -> tuple[bytes, dict[str, LogPart]]:
    """Return a block and its parts, as if it began at byte 0.

    Args:
        number: of the block.
        lines: of each trial, each line with its newline.
    """
    body = b"".join(lines.values())
    sizes = {name: (len(data), crc_of(data)) for name, data in lines.items()}
    head = _line(_BLOCK, {"n": number, "bytes": len(body), "trials": sizes})
    parts, start = {}, len(head)
    for name, (size_bytes, crc) in sizes.items():
        parts[name] = LogPart(number, start, size_bytes, crc)
        start += size_bytes
    return head + body, parts


def decode_line(line: bytes, start: int) -> LogBlock | LogIndex | None:
    """Return the block or index of a line that begins at byte ``start`` of a segment; None if it is damaged."""
    mark, _, rest = line.partition(b" ")
    text, _, crc = rest.rstrip(b"\n").rpartition(b" ")
    if mark not in (_BLOCK, _INDEX) or crc.decode(errors="replace") != crc_of(text):
        return None
    try:
        content = json.loads(text)
        if mark == _INDEX:
            return LogIndex(content["driver"], content["trials"])
        at, parts = start + len(line), {}
        for name, (size_bytes, part_crc) in content["trials"].items():
            parts[name] = LogPart(content["n"], at, size_bytes, part_crc)
            at += size_bytes
        return LogBlock(content["n"], parts, at)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def encode_end(driver: str, parts: Mapping[str, list[LogPart]], start: int) -> bytes:
    """Return the index and the last line of a segment, which begin at byte ``start``."""
    return _line(_INDEX, {"driver": driver, "trials": parts}) + b"#end %012d\n" % start


def decode_end(data: bytes) -> int | None:
    """Return the first byte of the index of a segment that ends with these bytes; None if it was not closed."""
    found = _END.fullmatch(data[-END_BYTES:])
    return None if found is None else int(found[1])


def next_mark(data: bytes) -> int:
    """Return the place in ``data`` where the line of a block or the index may begin; -1 if there is none."""
    found = [place + 1 for mark in (b"\n@ {", b"\n# {") if (place := data.find(mark)) >= 0]
    return min(found, default=-1)


def crc_of(data: bytes) -> str:
    """Return the checksum of some bytes."""
    return f"{zlib.crc32(data):08x}"


def _line(mark: bytes, content: Any) -> bytes:
    text = json.dumps(content, separators=(",", ":")).encode()
    return b"%s %s %s\n" % (mark, text, crc_of(text).encode())
