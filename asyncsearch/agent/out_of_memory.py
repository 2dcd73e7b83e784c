"""What the kernel says of the processes that it killed because memory ran out: counters, read before and after a death.

Linux counts them for each cgroup, and for the whole machine. Other systems say nothing.
"""

from __future__ import annotations

import re
import time
from collections import deque
from pathlib import Path

import msgspec

from asyncsearch.runner.process.cgroup_memory import events_file_of, limit_of, text_of

_SAMPLE_S = 0.5
"""Time between two samples. A death is compared with the last but one: the kernel counts before a process ends."""
_STALE_S = 10.0
"""Age at which a sample says nothing any more: in between something else may have been killed."""
_MACHINE = Path("/proc/vmstat")
_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_Counts = dict[Path, int]


class OomKills(msgspec.Struct, frozen=True):
    """How many processes the kernel killed for want of memory in the last moments; None: it does not say."""

    in_cgroup: int | None = None
    """In the cgroup of the runner, in which all processes of the worker are."""
    on_machine: int | None = None
    limit_bytes: int | None = None
    """Memory that the cgroup may use; None: there is no limit, or it is not known."""


class OomCounters:
    """The kernel's counters for one process."""

    def __init__(self, pid: int) -> None:
        """Find the counters; called while the process lives."""
        self._cgroup = events_file_of(pid)
        self._files = [file for file in (self._cgroup, _MACHINE) if file is not None]
        self._samples: deque[tuple[float, _Counts]] = deque(maxlen=2)

    def look(self) -> None:
        """Take a sample, unless the last one is recent; called at the start of a training and now and then in it."""
        now = time.monotonic()
        last_s = self._samples[-1][0] if self._samples else -_STALE_S
        if now < last_s + _SAMPLE_S:
            return
        if now > last_s + _STALE_S:
            self._samples.clear()
        self._samples.append((now, self._counts()))

    def kills(self) -> OomKills:
        """Return what was killed since the last sample but one; called once the process is dead."""
        if not self._samples:
            return OomKills()
        before, now = self._samples[0][1], self._counts()
        new = {file: count - before[file] for file, count in now.items() if file in before}
        in_cgroup = None if self._cgroup is None else new.get(self._cgroup)
        return OomKills(in_cgroup, new.get(_MACHINE), None if self._cgroup is None else limit_of(self._cgroup))

    def _counts(self) -> _Counts:
        found = {file: _KILLS.search(text_of(file)) for file in self._files}
        return {file: int(match[1]) for file, match in found.items() if match is not None}
