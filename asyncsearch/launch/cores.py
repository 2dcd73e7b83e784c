"""The number of cores that this process may use."""

from __future__ import annotations

import os
from pathlib import Path

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
