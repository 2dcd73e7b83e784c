"""The GPUs that this machine shows to its processes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from itertools import takewhile

_ANSWERS_WITHIN_S = 30.0
_LINE = re.compile(r"^(GPU|\s+MIG) .*\(UUID: ([^)\s]+)\)", re.MULTILINE)


def machine_devices(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the GPUs that a process with an environment sees, in their order; empty: it sees none.

    They are indices into ``CUDA_VISIBLE_DEVICES`` where it is set, else the UUIDs that ``nvidia-smi`` lists. CUDA reads
    that variable up to the first name of no device: ``-1`` hides all devices, and those after it.
    """
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return named_in(_listed())
    names = [name.strip() for name in visible.split(",") if name.strip()]
    return tuple(map(str, range(len(list(takewhile(_is_device, names))))))


def named_in(listed: str) -> tuple[str, ...]:
    """Return the UUIDs in what ``nvidia-smi -L`` printed: of a GPU that is cut into MIG devices, those of these."""
    found: list[list[str]] = []
    for kind, name in _LINE.findall(listed):
        if kind == "GPU":
            found.append([name])
        elif found:
            found[-1].append(name)
    return tuple(name for names in found for name in (names[1:] or names))


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
