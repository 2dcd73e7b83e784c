"""The facts of the kernel: a cgroup's memory, its limit and kills; the memory that is free; and the kind of the device.

Times of packs that were measured on one device say nothing of another.
"""

from __future__ import annotations

import platform
import resource
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_PROC = Path("/proc")
_UNLIMITED = 2**60
"""A limit from which on there is none; version 1 writes the largest multiple of a page."""
_EVENTS = {"cgroup": "memory.oom_control", "cgroup2": "memory.events"}
_LIMITS = {"memory.oom_control": "memory.limit_in_bytes", "memory.events": "memory.max"}
_USED = {"memory.oom_control": "memory.usage_in_bytes", "memory.events": "memory.current"}
_RECLAIMED = {"memory.oom_control": "total_inactive_file", "memory.events": "inactive_file"}
"""Memory of files, which a cgroup gives back before anything is killed."""


def events_file_of(pid: int | str) -> Path | None:
    """Return the file that counts the kills in a process's cgroup with memory control. None if there is none."""
    return events_file(text_of(_PROC / str(pid) / "cgroup"), text_of(_PROC / "self" / "mountinfo"))


def events_file(cgroups: str, mounts: str) -> Path | None:
    """Return the file that counts the kills in a cgroup with memory control. None if there is none.

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


def limit_of(events: Path) -> int | None:
    """Return the bytes that the cgroup of such a file may use. None if there is no limit, or it is not known."""
    limit = _number_in(events.with_name(_LIMITS[events.name]))
    return limit if limit is not None and limit < _UNLIMITED else None


def room_in(events: Path) -> int | None:
    """Return the bytes that the cgroup of such a file may still take. None if there is no limit, or it is not known."""
    limit, used = limit_of(events), _number_in(events.with_name(_USED[events.name]))
    if limit is None or used is None:
        return None
    lines = (line.split() for line in text_of(events.with_name("memory.stat")).splitlines())
    reclaimed = sum(int(line[1]) for line in lines if line[0] == _RECLAIMED[events.name])
    return max(0, limit - used + reclaimed)


def text_of(file: Path) -> str:
    """Return the text of a file of the kernel. Empty if there is no such file."""
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _number_in(file: Path) -> int | None:
    text = text_of(file).strip()
    return int(text) if text.isdecimal() else None


_GPUS = Path("/proc/driver/nvidia/gpus")
_PROCESSOR = Path("/proc/cpuinfo")


def device_name(visible: str | None) -> str:
    """Return the kinds of the accelerators of this machine, or the kind of its processor.

    Args:
        visible: ``CUDA_VISIBLE_DEVICES`` of the runner. None if it is not set, so that it sees all.
    """
    models = sorted({_field(text_of(file), "Model") for file in _GPUS.glob("*/information")}) if visible != "" else []
    if models:
        return ", ".join(models)
    if visible:
        return f"accelerator {visible}"
    model = _field(text_of(_PROCESSOR), "model name")
    return f"{platform.machine()} processor" + (f", {model}" if model else "")


def _field(text: str, name: str) -> str:
    """Return the first value of a name in lines such as ``Model:  NVIDIA H200``. Empty if there is none."""
    values = (line.partition(":")[2].strip() for line in text.splitlines() if line.partition(":")[0].strip() == name)
    return next(values, "")


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
