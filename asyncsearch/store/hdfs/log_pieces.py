"""A log on HDFS as earlier versions wrote it: a folder of closed files, each named by the bytes that it holds.

    logs/trial-7.log/000000000000-000000000518

What was appended was written anew together with the short pieces before it, so pieces overlap where their writer was
killed: the one that reaches furthest counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from asyncsearch.errors import StoreError

_NAME = re.compile(r"(\d{12})-(\d{12,})")


class LogFiles(Protocol):
    """The part of a file system that is needed."""

    @property
    def shown(self) -> str: ...
    def list(self, folder: str) -> Sequence[str]: ...
    def read(self, name: str) -> bytes | None: ...


class LogPiece(NamedTuple):
    """The bytes of a log from ``start`` to before ``end``."""

    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.start:012d}-{self.end:012d}"

    @property
    def size_bytes(self) -> int:
        return self.end - self.start


def parse(names: Sequence[str]) -> list[LogPiece]:
    """Return the pieces among the names of a folder."""
    return [LogPiece(int(found[1]), int(found[2])) for name in names if (found := _NAME.fullmatch(name))]


def longest_at(pieces: Sequence[LogPiece], at: int) -> LogPiece | None:
    """Return the piece that holds byte ``at`` and reaches furthest; None if the log ends there."""
    return max((piece for piece in pieces if piece.start <= at < piece.end), key=lambda piece: piece.end, default=None)


def blocks(files: LogFiles, folder: str) -> Iterator[bytes]:
    """Yield the content of a log; nothing if there is none. It may be written meanwhile.

    Raises:
        StoreError: it cannot be read, or is damaged.
    """
    at = 0
    present = parse(files.list(folder))
    while (piece := longest_at(present, at)) is not None:
        data = _content(files, folder, piece)
        if data is None:  # it was written anew meanwhile, in a longer one
            present = parse(files.list(folder))
            continue
        yield data[at - piece.start :]
        at = piece.end


def _content(files: LogFiles, folder: str, piece: LogPiece) -> bytes | None:
    name = f"{folder}/{piece}"
    data = files.read(name)
    if data is not None and len(data) != piece.size_bytes:
        raise StoreError(
            f"Of {f'{files.shown}/{name}'!r} {len(data):,} of {piece.size_bytes:,} bytes can be read. See whether all"
            " DataNodes that had it run, hdfs fsck, then try again."
        )
    return data
