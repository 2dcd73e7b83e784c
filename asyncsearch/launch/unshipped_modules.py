"""Modules that workers may lack: the search's own modules, which are not installed."""

from __future__ import annotations

import functools
import os
import site
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import cloudpickle

from asyncsearch.files.plain import read_text
from asyncsearch.launch.own_modules import OwnModules, folders_of, loaded_modules

_ON_EVERY_WORKER = frozenset({"__main__", "asyncsearch", "pyspark", "py4j", "cloudpickle"})
_INSTALLED_FOLDERS = frozenset({"site-packages", "dist-packages"})
_LOCK = threading.Lock()


def is_installed(module: ModuleType) -> bool:
    """Return whether a module is part of an environment, so that a worker with the same environment has it too."""
    # Compiled code cannot be sent, and a module with neither a file nor a folder has nothing to send.
    if getattr(module, "__name__", "").partition(".")[0] in _ON_EVERY_WORKER:
        return True
    file = getattr(module, "__file__", None)
    places = [file] if file is not None else folders_of(module)
    return not places or not all(map(is_own_source, places))


def is_own_source(place: object) -> bool:
    """Whether a Python file, or the folder of a package, belongs to the user and not to an environment."""
    if not isinstance(place, str) or not (place.endswith(".py") or os.path.isdir(place)):
        return False
    try:
        path = os.path.abspath(place)
    except OSError:  # the working directory is gone
        path = place
    # Asked of each module that is loaded, thousands beside torch: without pathlib, and the usual answer first.
    if path.startswith(_installed_paths()) or not _INSTALLED_FOLDERS.isdisjoint(path.split(os.sep)):
        return False
    return not any(_has_compiled(folder, package) for folder, package in _splits(path))


def _splits(path: str) -> Iterator[tuple[str, str]]:
    """Yield the folders of the import path above a file, each with the name below it."""
    for entry in sys.path:
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


@contextmanager
def sent_as_registered() -> Iterator[None]:
    """Keep cloudpickle's registry as users left it, although other threads may pack.

    The registry is global in the process.
    """
    with _LOCK:
        yield


@contextmanager
def sent_by_value() -> Iterator[OwnModules]:
    """Make cloudpickle send modules that are not installed by value, and yield them."""
    with _LOCK:
        before = cloudpickle.list_registry_pickle_by_value()
        loaded = loaded_modules()
        mine = {name: module for name, module in loaded.items() if name in before or not is_installed(module)}
        registered: list[ModuleType] = []
        try:
            for name, module in mine.items():
                # An alias is sent with its module.
                if module.__name__ == name and name not in before:
                    cloudpickle.register_pickle_by_value(module)
                    registered.append(module)
            yield OwnModules(mine)
        finally:
            for module in registered:
                cloudpickle.unregister_pickle_by_value(module)
