"""Reading a file of HDFS: the next block is on its way while the present one is hashed and written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from asyncsearch.store.hdfs import bounded

_BLOCK = 1 << 20


def read_ahead(reader: Any) -> Iterator[bytes]:
    """Yield what can be read of a file, in blocks of 1 MiB and more.

    Args:
        reader: of hdfs-native. It sends the whole file in one stream; its ``read`` asks a DataNode anew each time.

    Raises:
        TimeoutError: a block has not come within ``bounded.ANSWER_S``.
    """
    chunks = reader.read_range_stream(0, reader.file_length())
    due = bounded.begin(_block, chunks)
    while block := due.result_within(bounded.ANSWER_S):
        due = bounded.begin(_block, chunks)
        yield block


def _block(chunks: Iterator[bytes]) -> bytes:
    found, size_bytes = [], 0
    for chunk in chunks:
        found.append(chunk)
        size_bytes += len(chunk)
        if size_bytes >= _BLOCK:
            break
    return b"".join(found)
