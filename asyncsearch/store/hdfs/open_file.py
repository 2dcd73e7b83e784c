"""A file that is open for writing on HDFS."""

from __future__ import annotations

import contextlib
from typing import Any, BinaryIO

from asyncsearch.store.hdfs.bounded import Bounded, call
from asyncsearch.store.hdfs.client import note_closed, note_open

_BLOCK = 1 << 20


class OpenFile:
    """One writer of hdfs-native. After an error nothing more can be written into the file."""

    def __init__(self, writer: Any) -> None:
        self._raw, self._writer = writer, Bounded(writer)
        note_open(writer)

    def append(self, data: bytes) -> None:
        """Write, and return when every DataNode of the file has it on its disk, and the NameNode knows its length."""
        call(self._write_and_sync, data)

    def _write_and_sync(self, data: bytes) -> None:
        self._raw.write(data)
        self._raw.hsync()

    def write_and_close(self, data: bytes) -> None:
        """Write the whole rest of the file."""
        try:
            if data:
                self._writer.write(data)
        except BaseException:
            self.give_up()
            raise
        self.close()

    def copy_and_close(self, source: BinaryIO) -> None:
        """Write what is left of a local file."""
        try:
            while block := source.read(_BLOCK):
                self._writer.write(block)
        except BaseException:
            self.give_up()
            raise
        self.close()

    def close(self) -> None:
        """Let the NameNode know that the file is complete."""
        try:
            self._writer.close()
        finally:
            note_closed(self._raw)

    def give_up(self) -> None:
        """Close what can be closed of it; the content is unknown."""
        with contextlib.suppress(Exception):
            self.close()
