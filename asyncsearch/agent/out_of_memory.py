"""What the kernel says of the processes that it killed because memory ran out: counters, read before and after a death.

Linux counts them for each cgroup, and for the whole machine. Other systems say nothing.
"""

from __future__ import annotations

import re
import time
from collections import deque
from pathlib import Path, PurePosixPath

import msgspec

_SAMPLE_S = 0.5
"""Time between two samples. A death is compared with the last but one: the kernel counts before a process ends."""
_STALE_S = 10.0
"""Age at which a sample says nothing any more: in between something else may have been killed."""
_UNLIMITED = 2**60
"""A limit from which on there is none; version 1 writes the largest multiple of a page."""
_PROC = Path("/proc")
_MACHINE = _PROC / "vmstat"
_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_EVENTS = {"cgroup": "memory.oom_control", "cgroup2": "memory.events"}
_LIMITS = {"memory.oom_control": "memory.limit_in_bytes", "memory.events": "memory.max"}
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
        self._cgroup = events_file(_text(_PROC / str(pid) / "cgroup"), _text(_PROC / "self" / "mountinfo"))
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
        return OomKills(in_cgroup, new.get(_MACHINE), None if self._cgroup is None else _limit(self._cgroup))

    def _counts(self) -> _Counts:
        found = {file: _KILLS.search(_text(file)) for file in self._files}
        return {file: int(match[1]) for file, match in found.items() if match is not None}


def events_file(cgroups: str, mounts: str) -> Path | None:
    """Return the file that counts what was killed in a cgroup with memory control; None: there is none.

    Args:
        cgroups: text of ``/proc/PID/cgroup``.
        mounts: text of ``/proc/PID/mountinfo`` of a process that sees the same folders as this one.
    """
    paths = {}
    for line in cgroups.splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            paths["cgroup"] = path
        elif not controllers:
            paths["cgroup2"] = path
    for kind in ("cgroup", "cgroup2"):  # a controller of version 1 is not in version 2
        for line in mounts.splitlines() if kind in paths else ():
            fields, _, after = line.partition(" - ")
            found, _, options = after.split(" ", 2)
            if found == kind and (kind == "cgroup2" or "memory" in options.split(",")):
                root, mounted_at = fields.split(" ")[3:5]
                return Path(mounted_at) / _below(root, paths[kind]) / _EVENTS[kind]
    return None


def _below(root: str, path: str) -> PurePosixPath:
    """Return a cgroup's path below what is mounted; a container that sees only its own has that mounted."""
    inside = PurePosixPath(path)
    return inside.relative_to(root) if inside.is_relative_to(root) and ".." not in inside.parts else PurePosixPath()


def _limit(events: Path) -> int | None:
    text = _text(events.with_name(_LIMITS[events.name])).strip()
    return int(text) if text.isdecimal() and int(text) < _UNLIMITED else None


def _text(file: Path) -> str:
    """Return the text of a file of the kernel; empty: there is no such file."""
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
