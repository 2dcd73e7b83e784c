"""Which modules are part of an environment, so that workers have them, and which are the user's own."""

from __future__ import annotations

import functools
import os
import site
import sys
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path

from asyncsearch.files.paths import import_folders
from asyncsearch.files.plain import read_text
from asyncsearch.values import module_values

_ON_EVERY_WORKER = frozenset({"__main__", "asyncsearch", "pyspark", "py4j", "cloudpickle"})
_INSTALLED_FOLDERS = frozenset({"site-packages", "dist-packages"})


def is_installed(module: types.ModuleType) -> bool:
    """Return whether a module is part of an environment, so that a worker with the same environment has it too."""
    # Compiled code cannot be sent, and a module with neither a file nor a folder has nothing to send.
    known = module_values(module)
    if str(known.get("__name__")).partition(".")[0] in _ON_EVERY_WORKER:
        return True
    file = known.get("__file__")
    if file is not None:
        return not is_own_source(file)
    folders = folders_of(module)
    return not folders or not all(map(is_own_source, folders))


def folders_of(module: types.ModuleType) -> list[str]:
    """Return the folders of a package."""
    try:
        return [str(folder) for folder in module_values(module).get("__path__") or ()]
    except Exception:  # a namespace package asks for its parent, which may be gone; others' paths may raise anything
        return []


def is_own_source(place: object) -> bool:
    """Whether a Python file, or the folder of a package, belongs to the user and not to an environment."""
    # Asked of each module that is loaded, thousands beside torch, at each start: the usual answer first, and once.
    if isinstance(place, str) and os.path.isabs(place) and _is_in_environment(place):
        return False
    if not isinstance(place, str) or not (place.endswith(".py") or os.path.isdir(place)):
        return False
    try:
        path = os.path.abspath(place)
    except OSError:  # the working directory is gone
        path = place
    return not _is_in_environment(path) and not any(_has_compiled(folder, package) for folder, package in _splits(path))


@functools.cache
def _is_in_environment(path: str) -> bool:
    """Whether an absolute path lies in a folder of installed packages."""
    path = os.path.normpath(path)
    return path.startswith(_installed_paths()) or not _INSTALLED_FOLDERS.isdisjoint(path.split(os.sep))


def _splits(path: str) -> Iterator[tuple[str, str]]:
    """Yield the folders of the import path above a file, each with the name below it."""
    for entry in import_folders(sys.path):
        folder = os.path.abspath(entry)
        if path.startswith(folder + os.sep):
            yield folder, Path(path[len(folder) + 1 :]).parts[0]


@functools.cache
def _has_compiled(folder: str, package: str) -> bool:
    """Return whether ``pip install --target`` put a package with compiled code there, which cannot be sent by value."""
    for record in Path(folder).glob("*.dist-info/RECORD"):
        try:
            lines = read_text(record, errors="replace").splitlines()
        except OSError:  # whatever lies there, pip has not put it there
            continue
        files = [line.partition(",")[0] for line in lines]
        if any(file.startswith(f"{package}/") for file in files) and any(map(_is_compiled, files)):
            return True
    return False


def _is_compiled(file: str) -> bool:
    return file.endswith((".so", ".dylib", ".pyd", ".dll"))


@functools.cache
def _installed_paths() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    paths = [sysconfig.get_path(name) for name in names] + [site.getusersitepackages()]
    return tuple(os.path.abspath(path) + os.sep for path in paths)
