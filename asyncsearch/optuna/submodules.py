"""Optuna's own submodules under this package's name: ``from asyncsearch.optuna.samplers import TPESampler``.

Each is the very module that Optuna has, so that its classes are the same objects under both names.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence

_PREFIX = f"{__name__.rpartition('.')[0]}."


class OptunaFinder(importlib.abc.MetaPathFinder):
    """Finds modules of Optuna behind this package's name; the package's own modules come before."""

    def __init__(self, require: Callable[[], object]) -> None:
        """``require`` refuses a missing Optuna, or one of an unknown version."""
        self._require = require

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(_PREFIX):
            return None
        name = fullname.removeprefix(_PREFIX)
        if "." not in name and importlib.machinery.PathFinder.find_spec(fullname, path) is not None:
            return None
        theirs = f"optuna.{name}"
        self._require()
        try:
            found = importlib.util.find_spec(theirs)
        except ModuleNotFoundError:  # what it would lie in is none of theirs
            return None
        if found is None:
            return None
        loader = _OptunaLoader(theirs)
        return importlib.machinery.ModuleSpec(fullname, loader, is_package=found.submodule_search_locations is not None)


class _OptunaLoader(importlib.abc.Loader):
    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: importlib.machinery.ModuleSpec | None = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = importlib.import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has given it the one of the second name


def install(require: Callable[[], object]) -> None:
    """Let Optuna's submodules be imported by this package's name."""
    if not any(isinstance(one, OptunaFinder) for one in sys.meta_path):
        # First: a submodule of theirs would be found by its folder, and be made a second time.
        sys.meta_path.insert(0, OptunaFinder(require))
