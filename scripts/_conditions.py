"""The conditions under which a benchmark runs, for people who compare its figures with others."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import psutil

from asyncsearch.launch.machine import cores

JAVA_OPTIONS = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_POLICIES = {0: "SCHED_OTHER", 1: "SCHED_FIFO", 2: "SCHED_RR", 3: "SCHED_BATCH", 5: "SCHED_IDLE"}


def conditions(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return a line for each condition that changes times, and does not change while a benchmark runs."""
    options = [f"{name}={environment[name]}" for name in JAVA_OPTIONS if environment.get(name)]
    folder = Path(tempfile.gettempdir())
    memory_gib = psutil.virtual_memory().total / 2**30
    return [
        f"{cores()} of {os.cpu_count()} cores ({platform.machine()}), {memory_gib:.1f} GiB of memory",
        f"{platform.system()} {platform.release()}, scheduled by {_policy()}",
        f"Python {platform.python_version()}, pyspark {_version('pyspark')}, grpcio {_version('grpcio')}",
        f"Java: {shutil.which('java') or 'that of JAVA_HOME'}",
        "Java options: " + ("; ".join(options) or "the default ones"),
        f"stores in {folder} on {_file_system(folder)}",
    ]


def load(when: str) -> str:
    """Return the load of the machine now, which is that of this benchmark and of everything else."""
    averages = ", ".join(f"{average:.2f}" for average in os.getloadavg())
    return f"load {when}: {averages} in 1, 5 and 15 minutes"


def _policy() -> str:
    policy = os.sched_getscheduler(0) if hasattr(os, "sched_getscheduler") else 0
    return _POLICIES.get(policy, str(policy))


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _file_system(folder: Path) -> str:
    """Return the type of the file system that holds a folder."""
    parts = [part for part in psutil.disk_partitions(all=True) if folder.resolve().is_relative_to(part.mountpoint)]
    return max(parts, key=lambda part: len(part.mountpoint)).fstype if parts else "an unknown file system"
