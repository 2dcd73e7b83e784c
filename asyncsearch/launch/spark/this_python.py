"""Whether another Python process of this machine finds the packages that this one finds."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

PACKAGE = "asyncsearch"


def has_this_environment(python: str) -> bool:
    """Return whether a Python that is started as ``python`` has this interpreter's packages, asyncsearch with them.

    A package that is on this process's path alone, such as the folder of a script, does not count.
    """
    found = shutil.which(python)
    if found is None or not _is_same(os.path.abspath(found), os.path.abspath(sys.executable)):
        return False
    return _is_on_path_of_all() or _is_installed()


def _is_same(one: str, other: str) -> bool:
    """Whether two paths start one interpreter in one environment, which the folder of the link to it decides."""
    return os.path.dirname(one) == os.path.dirname(other) and os.path.samefile(one, other)


def _is_on_path_of_all() -> bool:
    """Whether ``PYTHONPATH``, which all processes inherit, leads to the package."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return False
    home = Path(spec.origin).parent.parent
    return any(path and Path(path).is_absolute() and Path(path) == home for path in _inherited())


def _inherited() -> list[str]:
    return os.environ.get("PYTHONPATH", "").split(os.pathsep)


def _is_installed() -> bool:
    """Whether the package is installed beside msgspec, which no script carries in its folder."""
    spec = importlib.util.find_spec("msgspec")
    if spec is None or spec.origin is None:
        return False
    # Not importlib.metadata, whose import takes as long as all else that is looked at before the first launch.
    return any(Path(spec.origin).parent.parent.glob(f"{PACKAGE}-*.dist-info"))
