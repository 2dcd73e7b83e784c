"""Logs on HDFS as earlier versions wrote them, in pieces: each line is read once. Files are a dictionary."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from asyncsearch.errors import StoreError
from asyncsearch.store.hdfs.store import LogPiece, log_pieces_among, pieced_blocks

LOG = "logs/x.log"


class Dictionary:
    """Files in memory."""

    shown = "hdfs://test"

    def __init__(self, *pieces: tuple[int, bytes]) -> None:
        """Begin with pieces: each begins at a byte of the log."""
        self.files = {f"{LOG}/{start:012d}-{start + len(data):012d}": data for start, data in pieces}

    def list(self, folder: str) -> Sequence[str]:
        return sorted(name.rpartition("/")[2] for name in self.files if name.startswith(f"{folder}/"))

    def read(self, name: str) -> bytes | None:
        return self.files.get(name)


def whole(files: Dictionary) -> bytes:
    return b"".join(pieced_blocks(files, LOG))


@pytest.mark.parametrize(
    "pieces",
    [
        [(0, b"abcdef")],
        [(0, b"abc"), (3, b"def")],
        [(0, b"abc"), (3, b"d"), (3, b"def")],
        [(0, b"ab"), (0, b"abc"), (2, b"c"), (2, b"cdef")],
    ],
)
def test_a_log_reads_as_appended_even_if_its_writer_died_before_cleaning(
    pieces: list[tuple[int, bytes]],
) -> None:
    assert whole(Dictionary(*pieces)) == b"abcdef"


def test_a_reader_keeps_its_place_when_a_piece_was_rewritten_meanwhile() -> None:
    files = Dictionary((0, b"aaa"), (3, b"b"))
    reader = pieced_blocks(files, LOG)
    assert next(reader) == b"aaa"
    files.files = Dictionary((0, b"aaabcc")).files
    assert b"".join(reader) == b"bcc"


def test_a_piece_that_reads_shorter_than_its_name_says_is_no_shorter_log() -> None:
    files = Dictionary((0, b"a line\n"))
    files.files[f"{LOG}/000000000000-000000000007"] = b"a l"
    with pytest.raises(StoreError, match="3 of 7 bytes can be read"):
        whole(files)


def test_other_files_in_the_folder_are_no_part_of_the_log() -> None:
    assert log_pieces_among(["notes", "000000000000-000000000007", "1-2"]) == [LogPiece(0, 7)]
