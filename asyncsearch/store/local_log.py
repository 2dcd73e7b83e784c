"""The open log of a driver in a store on a disk."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from asyncsearch.store.disk import explained, sync_data, write_all


class LocalLog:
    """A file that grows by one write and one sync an append; see ``LogFile``."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """Take over a new file."""
        self._path, self._descriptor = path, descriptor

    def append(self, data: bytes) -> None:
        with explained("write a log", self._path):
            write_all(self._descriptor, data)
            sync_data(self._descriptor)

    def finish(self, data: bytes) -> None:
        self.append(data)
        self.give_up()

    def give_up(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)
