"""A log on HDFS: a folder of closed files, each named by the bytes of the log that it holds.

    logs/trial-7.log/000000000000-000000000518

A closed file is never appended to. hdfs-native appends to the replicas that the NameNode knows at that moment, and
gives the block no new generation: a replica that is reported a moment later counts as good, and the recovery of the
block cuts all of them to its length. So what is appended is written anew together with the short pieces before it,
which are removed then. Their number grows with the logarithm of the log's length, and a short log is one file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from asyncsearch.errors import StoreError

ANEW_BYTES = 64 << 10
"""Pieces up to this length are written anew with each append: that takes no longer than to write the addition."""
_NAME = re.compile(r"(\d{12})-(\d{12,})")


class LogFiles(Protocol):
    """What is needed of a file system."""

    @property
    def shown(self) -> str: ...
    def list(self, folder: str) -> Sequence[str]: ...
    def read(self, name: str) -> bytes | None: ...
    def write(self, name: str, data: bytes) -> None: ...
    def remove(self, name: str) -> None: ...


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
    """Return the piece that holds byte ``at`` and reaches furthest; None: the log ends there."""
    return max((piece for piece in pieces if piece.start <= at < piece.end), key=lambda piece: piece.end, default=None)


def written_anew(pieces: Sequence[LogPiece], size_bytes: int) -> list[LogPiece]:
    """Return the last of some consecutive pieces, in order: those to be written anew with so many further bytes."""
    found: list[LogPiece] = []
    for piece in reversed(pieces):
        if piece.size_bytes > max(size_bytes, ANEW_BYTES):
            break
        found.insert(0, piece)
        size_bytes += piece.size_bytes
    return found


def append(files: LogFiles, folder: str, data: bytes) -> None:
    """Append to a log; one thread at a time.

    Raises:
        StoreError: it cannot be written; nothing was appended, as far as is known.
    """
    present = parse(files.list(folder))
    pieces: list[LogPiece] = []
    end = 0
    while (piece := longest_at(present, end)) is not None:
        pieces.append(piece)
        end = piece.end
    anew = written_anew(pieces, len(data))
    whole = b"".join(_present(files, folder, piece) for piece in anew) + data
    added = LogPiece(end + len(data) - len(whole), end + len(data))
    files.write(f"{folder}/{added}", whole)
    for piece in present:
        if added.start <= piece.start:  # the new one contains it; also what a writer that was killed has left
            files.remove(f"{folder}/{piece}")


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


def _present(files: LogFiles, folder: str, piece: LogPiece) -> bytes:
    data = _content(files, folder, piece)
    if data is None:
        raise StoreError(
            f"{f'{files.shown}/{folder}/{piece}'!r} has vanished while the log was written: another process writes or"
            " removes it. Let one driver at a time write a study."
        )
    return data


def _content(files: LogFiles, folder: str, piece: LogPiece) -> bytes | None:
    name = f"{folder}/{piece}"
    data = files.read(name)
    if data is not None and len(data) != piece.size_bytes:
        raise StoreError(
            f"Of {f'{files.shown}/{name}'!r} {len(data):,} of {piece.size_bytes:,} bytes can be read. See whether all"
            " DataNodes that had it run, hdfs fsck, then try again."
        )
    return data
