"""One file of HDFS, open for writing or for reading, by calls that end within a time."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from asyncsearch.files.contents import Content, ContentCounter
from asyncsearch.store.blocks import BLOCK_BYTES
from asyncsearch.store.hdfs import bounded
from asyncsearch.store.hdfs.bounded import Bounded, call
from asyncsearch.store.hdfs.client import note_closed, note_open

_log = logging.getLogger(__name__)
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 0.1


class OpenFile:
    """One writer of hdfs-native. After an error nothing more can be written into the file."""

    def __init__(self, writer: Any, finish: Callable[[int], bool]) -> None:
        """Take over a writer.

        Args:
            writer: of hdfs-native, of a new file.
            finish: closes the file at the NameNode if all of so many bytes can be read; returns whether it did.
        """
        self._raw, self._writer = writer, Bounded(writer)
        self._finish, self._size_bytes = finish, 0
        note_open(writer)

    def append(self, data: bytes) -> None:
        """Write, and return when every DataNode of the file has it on its disk, and the NameNode knows its length."""
        bounded.begin(self._write_and_sync, data).result_within(bounded.SYNC_S)

    def _write_and_sync(self, data: bytes) -> None:
        self._raw.write(data)
        self._size_bytes += len(data)
        self._raw.hsync()

    def write_and_close(self, data: bytes) -> None:
        """Write the whole rest of the file."""
        try:
            if data:
                self._writer.write(data)
                self._size_bytes += len(data)
        except BaseException:
            self.give_up()
            raise
        self.close()

    def copy_and_close(self, source: BinaryIO) -> Content:
        """Write the rest of a local file, each block of which is hashed while it is written; return its content."""
        counter = ContentCounter()
        try:
            while block := source.read(BLOCK_BYTES):
                writing = bounded.begin(self._raw.write, block)
                counter.add(block)
                writing.result_within(bounded.ANSWER_S)
        except BaseException:
            self.give_up()
            raise
        self._size_bytes += counter.content.size_bytes
        self.close()
        return counter.content

    def close(self) -> None:
        """Let the NameNode know that the file is complete."""
        close_at_once(self._close_writer, lambda: self._size_bytes > 0 and self._finish(self._size_bytes))

    def give_up(self) -> None:
        """Close what can be closed of it; the content is unknown."""
        with contextlib.suppress(Exception):
            call(self._close_writer)

    def _close_writer(self) -> None:
        try:
            self._raw.close()
        finally:
            note_closed(self._raw)


def close_at_once(writer_close: Callable[[], None], finish: Callable[[], bool]) -> None:
    """Close a file without hdfs-native's wait; return when the NameNode has closed it.

    A NameNode refuses to close a file until a DataNode has reported the last block, which comes some milliseconds after
    the writer's own request. hdfs-native then waits for 0.5, 1, 2 s before it asks again. So, while it waits, the
    NameNode is asked here whether all of the file can be read, and then closes it by its call for leases that were
    left; hdfs-native's next request, in its thread, finds the file closed, which is no error.

    Args:
        writer_close: closes it, sooner or later.
        finish: closes it at the NameNode if all of it is there; returns whether it did.

    Raises:
        TimeoutError: it was not closed within ``bounded.ANSWER_S``.
    """
    closing = bounded.begin(writer_close)
    deadline = time.monotonic() + bounded.ANSWER_S
    pause_s = _FIRST_PAUSE_S
    while not closing.done.wait(pause_s) and time.monotonic() < deadline:
        try:
            if finish():
                return
        except Exception as error:  # whether it is closed is then for the first call to say
            _log.debug("Cannot finish a file: %s", error)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    closing.result_within(0.0)


def read_ahead(reader: Any) -> Iterator[bytes]:
    """Yield the part of a file that can be read, in blocks of 1 MiB and more; the next one is already on its way.

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
        if size_bytes >= BLOCK_BYTES:
            break
    return b"".join(found)
