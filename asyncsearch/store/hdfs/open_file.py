"""A file that is open for writing on HDFS."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, BinaryIO

from asyncsearch.files.contents import Content, new_digest
from asyncsearch.store.hdfs import bounded, closing
from asyncsearch.store.hdfs.bounded import Bounded, call
from asyncsearch.store.hdfs.client import note_closed, note_open

_BLOCK = 1 << 20


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
        """Write what is left of a local file; each block is hashed while it is written. Return what was written."""
        digest = new_digest()
        try:
            while block := source.read(_BLOCK):
                writing = bounded.begin(self._raw.write, block)
                digest.update(block)
                writing.result_within(bounded.ANSWER_S)
                self._size_bytes += len(block)
        except BaseException:
            self.give_up()
            raise
        self.close()
        return Content(self._size_bytes, digest.hexdigest())

    def close(self) -> None:
        """Let the NameNode know that the file is complete."""
        closing.close(self._close_writer, lambda: self._size_bytes > 0 and self._finish(self._size_bytes))

    def give_up(self) -> None:
        """Close what can be closed of it; the content is unknown."""
        with contextlib.suppress(Exception):
            call(self._close_writer)

    def _close_writer(self) -> None:
        try:
            self._raw.close()
        finally:
            note_closed(self._raw)
