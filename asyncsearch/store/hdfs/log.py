"""The open log of a driver on HDFS: what is synced survives the driver, and others read it once the file is closed."""

from __future__ import annotations

from asyncsearch.store.hdfs.files import HdfsFiles
from asyncsearch.store.hdfs.open_file import OpenFile


class HdfsLog:
    """A file that grows by one ``hsync`` an append; see ``LogFile``."""

    def __init__(self, files: HdfsFiles, name: str, file: OpenFile) -> None:
        """Take over an empty file."""
        self._files, self._name, self._file = files, name, file

    def append(self, data: bytes) -> None:
        with self._files.explained("append to", self._name):
            self._file.append(data)

    def finish(self, data: bytes) -> None:
        with self._files.explained("close", self._name):
            self._file.write_and_close(data)

    def give_up(self) -> None:
        self._file.give_up()
        self._files.begin_to_close(self._name)
