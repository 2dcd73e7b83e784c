"""Facts about this machine and this Python."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import msgspec
import psutil

from asyncsearch._version import __version__
from asyncsearch.launch.machine import cores

_TENSORFLOWS = "tensorflow", "tensorflow-cpu", "tf-nightly", "tensorflow-intel", "tensorflow-rocm"
_TORCHES = ("torch",)
_TRITONS = "triton", "pytorch-triton", "pytorch-triton-rocm", "triton-rocm"
"""Names of the packages; a build of torch for the CPU has no triton."""


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The driver's machine, as this process sees it."""

    python: str
    """Path of the interpreter."""
    python_version: str
    """Such as "3.11.7"."""
    version: str
    """Version of asyncsearch."""
    home: str
    """Folder from which asyncsearch is imported."""
    cores: int
    """Cores that this process may use."""
    memory_bytes: int
    """Memory that is free."""
    descriptors: int
    """Files that one process may have open."""
    scratch: str
    """Folder of temporary files."""
    scratch_bytes: int
    """Free space there."""
    has_pyspark: bool
    has_java: bool
    clashing: tuple[str, ...] = ()
    """TensorFlow, torch and triton with their versions, if all three are installed; empty if one is not."""


def machine_facts() -> MachineFacts:
    """Return the facts that this process sees."""
    import resource

    scratch = tempfile.gettempdir()
    home = os.environ.get("JAVA_HOME")
    return MachineFacts(
        python=sys.executable,
        python_version=platform.python_version(),
        version=__version__,
        home=str(Path(__file__).parent.parent),
        cores=cores(),
        memory_bytes=psutil.virtual_memory().available,
        descriptors=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        scratch=scratch,
        scratch_bytes=shutil.disk_usage(scratch).free,
        has_pyspark=find_spec("pyspark") is not None,
        clashing=_clashing(),
        has_java=bool(shutil.which("java") or (home and (Path(home) / "bin" / "java").exists())),
    )


def _clashing() -> tuple[str, ...]:
    """Return the frameworks that abort in one process, by what is installed: to import them would abort this one."""
    found = tuple(filter(None, map(_installed, (_TENSORFLOWS, _TORCHES, _TRITONS))))
    return found if len(found) == 3 else ()


def _installed(names: tuple[str, ...]) -> str:
    for name in names:
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
    return ""
