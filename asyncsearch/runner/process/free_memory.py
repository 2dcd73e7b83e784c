"""How much more memory this process may hold: by the machine, its cgroup and its own limits, where Linux tells it."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

from asyncsearch.runner.process.kernel_files import events_file_of, room_in, text_of

_SELF = Path("/proc/self")
_KIB = 1024
_RLIMITS = {"VmSize": ("RLIMIT_AS", resource.RLIMIT_AS), "VmData": ("RLIMIT_DATA", resource.RLIMIT_DATA)}


def rooms() -> Iterator[tuple[int, str]]:
    """Yield how many more bytes this process may hold, by each limit."""
    available = _sizes(text_of(Path("/proc/meminfo"))).get("MemAvailable")
    if available is not None:
        yield available, "the machine"
    events = events_file_of("self")
    room = None if events is None else room_in(events)
    if room is not None:
        yield room, "its cgroup"
    for name, (limit_name, limit) in _RLIMITS.items():
        most = resource.getrlimit(limit)[0]
        if most != resource.RLIM_INFINITY:
            yield max(0, most - status().get(name, 0)), limit_name


def status() -> dict[str, int]:
    """Return the sizes that the kernel tells of this process, by their names."""
    return _sizes(text_of(_SELF / "status"))


def _sizes(text: str) -> dict[str, int]:
    """Return name -> bytes of the lines that end with ``kB``."""
    lines = (line.partition(":") for line in text.splitlines() if line.endswith(" kB"))
    return {name: int(rest.split()[0]) * _KIB for name, _, rest in lines}
