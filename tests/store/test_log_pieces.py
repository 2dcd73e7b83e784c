"""Logs in pieces: each line is read once, whatever was removed, left or written meanwhile. Files are a dictionary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.errors import StoreError
from asyncsearch.store.hdfs import log_pieces
from asyncsearch.store.hdfs.log_pieces import ANEW_BYTES, append, blocks

LOG = "logs/x.log"


class Dictionary:
    """Files in memory; a write can fail, and so can the removals behind it."""

    shown = "hdfs://test"

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.written_bytes = 0
        self.can_remove = True

    def list(self, folder: str) -> list[str]:
        return sorted(name.rpartition("/")[2] for name in self.files if name.startswith(f"{folder}/"))

    def read(self, name: str) -> bytes | None:
        return self.files.get(name)

    def write(self, name: str, data: bytes) -> None:
        self.files[name] = data
        self.written_bytes += len(data)

    def remove(self, name: str) -> None:
        if not self.can_remove:
            raise StoreError("The process was killed here.")
        del self.files[name]


def whole(files: Dictionary) -> bytes:
    return b"".join(blocks(files, LOG))


@given(st.lists(st.tuples(st.integers(1, 4 * ANEW_BYTES), st.booleans()), max_size=12))
def test_a_log_reads_as_what_was_appended_even_where_a_writer_died_before_it_removed_old_pieces(
    appends: list[tuple[int, bool]],
) -> None:
    files, expected = Dictionary(), b""
    for number, (size_bytes, files.can_remove) in enumerate(appends):
        data = bytes([65 + number]) * size_bytes
        try:
            append(files, LOG, data)
        except StoreError:
            assert not files.can_remove
        expected += data
        assert whole(files) == expected


def test_a_short_log_is_one_file() -> None:
    files = Dictionary()
    for _ in range(100):
        append(files, LOG, b"a line\n")
    assert list(files.files) == [f"{LOG}/000000000000-000000000700"]


def test_a_long_log_has_few_pieces_and_is_written_few_times() -> None:
    files = Dictionary()
    for _ in range(3000):
        append(files, LOG, b"x" * 4096)
    length = 3000 * 4096
    assert len(files.files) < 12
    assert files.written_bytes < 16 * length


def test_a_reader_goes_on_where_it_was_when_a_piece_was_written_anew_meanwhile() -> None:
    files = Dictionary()
    append(files, LOG, b"a" * 3 * ANEW_BYTES)
    append(files, LOG, b"b" * 10)
    assert len(files.files) == 2
    reader = blocks(files, LOG)
    read = next(reader)
    append(files, LOG, b"c" * 4 * ANEW_BYTES)
    assert len(files.files) == 1
    assert read + b"".join(reader) == b"a" * 3 * ANEW_BYTES + b"b" * 10 + b"c" * 4 * ANEW_BYTES


def test_a_piece_that_reads_shorter_than_its_name_says_is_no_shorter_log() -> None:
    files = Dictionary()
    append(files, LOG, b"a line\n")
    files.files[f"{LOG}/000000000000-000000000007"] = b"a l"
    with pytest.raises(StoreError, match="3 of 7 bytes can be read"):
        whole(files)
    with pytest.raises(StoreError, match="3 of 7 bytes"):
        append(files, LOG, b"another\n")


def test_other_files_in_the_folder_are_no_part_of_the_log() -> None:
    assert log_pieces.parse(["notes", "000000000000-000000000007", "1-2"]) == [log_pieces.LogPiece(0, 7)]
