"""The cores and the GPUs that this machine shows to its processes."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

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
