"""The clock of a file system, as the times of its files show it.

Whoever compares the time of a file with the clock of his own machine takes a driver on another one for dead if the two
differ. Here both times are of the file system: that of the file, and that of a probe, an empty file written now.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import NamedTuple

from asyncsearch.store.base_store import FileInfo

PROBE = "probe-"
"""The beginning of the names of probes."""


class _Probe(NamedTuple):
    """When a probe was written, by three clocks."""

    there_s: float
    monotonic_s: float
    here_s: float


class FileClock:
    """The clock of one file system.

    Args:
        write: writes a file.
        find: returns the files below a folder, by their names inside it.
        remove: removes a file.
        folder: of the probes.
        reuse_s: seconds for which the last probe tells the time, with the monotonic clock of this machine.
    """

    def __init__(
        self,
        write: Callable[[str, bytes], object],
        find: Callable[[str], Mapping[str, FileInfo]],
        remove: Callable[[str], object],
        *,
        folder: str = "tmp",
        reuse_s: float = 0.0,
    ) -> None:
        self._write, self._find, self._remove = write, find, remove
        self._folder, self._reuse_s = folder, reuse_s
        self._last: _Probe | None = None

    def now_s(self) -> float | None:
        """Return the Unix time that a file written now would have, or less; None if the file system does not tell.

        Raises:
            StoreError: nothing can be written there.
        """
        if self._last is None or _since(self._last) >= self._reuse_s:
            self._last = self._probe()
        return None if self._last is None else self._last.there_s + time.monotonic() - self._last.monotonic_s

    def age_s(self, name: str, refreshed_s: float) -> float:
        """Return the seconds since a file was written.

        Args:
            name: of the file.
            refreshed_s: Unix time by the clock of its writer, which counts where the file system does not tell.

        Raises:
            StoreError: nothing can be written there, or the file system does not answer.
        """
        now_s = self.now_s()  # before the look: a process that is stopped between the two takes nothing for too old
        folder, _, base = name.rpartition("/")
        file = self._find(folder).get(base)
        return 0.0 if file is None else age_s(file, now_s, refreshed_s)  # it is replaced at this moment

    def _probe(self) -> _Probe | None:
        name = f"{PROBE}{uuid.uuid4().hex}"
        path = f"{self._folder}/{name}"
        self._write(path, b"")
        written = time.monotonic(), time.time()
        try:
            info = self._find(self._folder).get(name)
        finally:
            self._remove(path)
        return None if info is None or info.modified_s is None else _Probe(info.modified_s, *written)


def age_s(file: FileInfo, now_s: float | None, refreshed_s: float) -> float:
    """Return the seconds since a file was written, at a time of its file system; see ``FileClock``."""
    return time.time() - refreshed_s if file.modified_s is None or now_s is None else now_s - file.modified_s


def _since(probe: _Probe) -> float:
    # The monotonic clock may stop while a machine is suspended.
    return max(time.monotonic() - probe.monotonic_s, time.time() - probe.here_s)
