"""The resources that this machine gives to processes: cores, GPUs, and descriptors, which may be scarce.

A run that needs too many descriptors is refused; a launch that fails for want of them is tried again.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

from asyncsearch.errors import UsageError

_ANSWERS_WITHIN_S = 30.0
_LINE = re.compile(r"^(GPU|\s+MIG) (.*)\(UUID: ([^)\s]+)\)", re.MULTILINE)
_PLACE = re.compile(r"^\d+: |\s+Device\s+\d+:")


def machine_devices(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the GPUs that a process with an environment sees, in their order. Empty if it sees none.

    They are indices into ``CUDA_VISIBLE_DEVICES`` where it is set, else the UUIDs that ``nvidia-smi`` lists. CUDA reads
    that variable up to the first name of no device: ``-1`` hides all devices, and those after it.
    """
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return named_in(_listed())
    return tuple(map(str, range(len(_visible(visible)))))


def machine_kinds(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the kinds of the GPUs that ``machine_devices`` names, as ``nvidia-smi -L`` says. Empty if unknown.

    Indices in ``CUDA_VISIBLE_DEVICES`` say nothing of a kind on a machine with several: CUDA numbers the fastest first,
    ``nvidia-smi`` by bus, unless ``CUDA_DEVICE_ORDER`` is ``PCI_BUS_ID``.
    """
    listed = _listed()
    kinds = kinds_in(listed)
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return tuple(kinds[name] for name in named_in(listed))
    found = [_kind_of(name, kinds, environment.get("CUDA_DEVICE_ORDER", "")) for name in _visible(visible)]
    return tuple(found) if all(found) else ()


def kinds_in(listed: str) -> dict[str, str]:
    """Return the kind of each UUID in the output of ``nvidia-smi -L``; that of a MIG device begins with its GPU's."""
    kinds, gpu = {}, ""
    for kind, words, name in _LINE.findall(listed):
        model = _PLACE.sub("", words).strip()
        gpu = model if kind == "GPU" else gpu
        kinds[name] = gpu if kind == "GPU" else f"{gpu} MIG {model}"
    return kinds


def named_in(listed: str) -> tuple[str, ...]:
    """Return the UUIDs in the output of ``nvidia-smi -L``: of a GPU that is cut into MIG devices, those of these."""
    found: list[list[str]] = []
    for kind, _, name in _LINE.findall(listed):
        if kind == "GPU":
            found.append([name])
        elif found:
            found[-1].append(name)
    return tuple(name for names in found for name in (names[1:] or names))


def _visible(names: str) -> list[str]:
    """Return the names in ``CUDA_VISIBLE_DEVICES`` that CUDA reads."""
    return list(takewhile(_is_device, [name.strip() for name in names.split(",") if name.strip()]))


def _kind_of(name: str, kinds: Mapping[str, str], order: str) -> str:
    """Return the kind of what ``CUDA_VISIBLE_DEVICES`` names, a UUID, its beginning, or an index. Empty if unknown."""
    if not name.isdecimal():
        return next((kind for uuid, kind in kinds.items() if uuid.startswith(name)), "")
    gpus = [kind for uuid, kind in kinds.items() if uuid.startswith("GPU-")]
    is_known = order == "PCI_BUS_ID" or len({*gpus}) == 1
    return gpus[int(name)] if is_known and int(name) < len(gpus) else ""


def _is_device(name: str) -> bool:
    return name.isdecimal() or name.startswith(("GPU-", "MIG-"))


def _listed() -> str:
    try:
        done = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, check=False, timeout=_ANSWERS_WITHIN_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


_CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")


def cores(cgroup_limit: Path = _CGROUP_LIMIT) -> int:
    """Return the number of cores that this process may keep busy, from 1.

    Args:
        cgroup_limit: the file with a container's limit, as "200000 100000" or "max 100000".
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # A container with two cores on a machine with 64 sees 64.
    try:
        quota, period = cgroup_limit.read_text().split()
        limit = float(quota) / float(period)
    except (OSError, ValueError):
        return allowed
    return max(1, min(allowed, round(limit)))


_log = logging.getLogger(__name__)
T = TypeVar("T")

_SCARCE = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
_RUN, _CHILD = 30, 4
"""Descriptors that a run takes, and each of its processes on this machine: measured were 26 and 4, on a disk."""
_FIRST_S, _LONGEST_S = 0.1, 5.0
PATIENCE_S = 300.0
"""Time after which the launch counts as failed."""


def descriptors() -> tuple[int | None, int]:
    """Return how many descriptors this process may have open (None: any number), and how many it has."""
    try:
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return None if most == resource.RLIM_INFINITY else most, len(os.listdir("/dev/fd"))
    except (ImportError, OSError):  # another system than Unix
        return None, 0


def require_descriptors(workers: int, *, are_processes_here: bool) -> None:
    """Check that this process may open the descriptors that a run takes, which would otherwise break down anywhere.

    Args:
        workers: how many it has at once.
        are_processes_here: whether they are children of this process, rather than on a cluster.

    Raises:
        UsageError: the limit on open files is too low.
    """
    most, in_use = descriptors()
    needed = in_use + _RUN + workers * (_CHILD if are_processes_here else 1)
    if most is not None and needed > most:
        wanted = max(256, 1 << needed.bit_length())
        raise UsageError(
            f"This process may have {most} files open and has {in_use}, and with a run of {workers} "
            f"{'worker' if workers == 1 else 'workers'} it has about {needed}: set a higher limit before you start it, "
            f"`ulimit -n {wanted}` in the shell{'' if workers == 1 else ', or take fewer workers, parallelism=1'}."
        )


def is_scarcity(error: BaseException | None) -> bool:
    """Return whether an error, or one that caused it, says that descriptors, processes or memory ran out."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _SCARCE:
            return True
        error = error.__cause__ or error.__context__
    return False


def patiently(
    launch: Callable[[], T],
    is_called_off: Callable[[float], object],
    name: str,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """Call ``launch``, again while the machine lacks descriptors, and return its result.

    Args:
        is_called_off: waits for so many seconds, or until the launch is not wanted any more, and returns whether.
        name: of the worker, for the log.

    Raises:
        Exception: by ``launch``, if waiting cannot help, did not, or was called off.
    """
    delay_s, give_up_s = _FIRST_S, clock() + PATIENCE_S
    while True:
        try:
            return launch()
        except Exception as error:
            if not is_scarcity(error) or clock() + delay_s > give_up_s:
                raise
            if delay_s == _FIRST_S:
                _log.warning("%s cannot be started yet, and is tried again: %s", name, error)
            if is_called_off(delay_s):
                raise
        delay_s = min(2 * delay_s, _LONGEST_S)
