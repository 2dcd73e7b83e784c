"""Lets ``import ray`` and the modules of Tune give what this project has for them, until it is undone.

The modules are made when they are imported. What has no counterpart is there as a ``Refusal``, which says what to write
instead where a program uses it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from asyncsearch.errors import UsageError
from asyncsearch.ray.module_names import MODULES, REFUSED, REFUSED_MODULES, VERSION

_MARK = "__asyncsearch__"


class MissingRayModuleError(ModuleNotFoundError):
    """A module of Ray that has no counterpart here."""


class Refusal:
    """In the place of a name that has no counterpart: what uses it is told what to write instead."""

    def __init__(self, name: str, instead: str) -> None:
        self._words = f"{name} has no counterpart here: {instead}"

    def __call__(self, *_given: Any, **_named: Any) -> NoReturn:
        raise UsageError(self._words)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UsageError(self._words)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> NoReturn:
        raise UsageError(self._words)


class RayModuleFinder(MetaPathFinder, Loader):
    """Finds ``ray`` and its modules."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        if fullname != "ray" and not fullname.startswith("ray."):
            return None
        if fullname in MODULES:
            return ModuleSpec(fullname, self, is_package=True)
        parent, _, name = fullname.rpartition(".")
        if name in MODULES.get(parent, {}) or (parent, name) in REFUSED:
            return None  # it is a name in a module
        known = [one for one in REFUSED_MODULES if fullname == one or fullname.startswith(f"{one}.")]
        instead = REFUSED_MODULES[known[0]] if known else "docs/migrate_ray.md lists what there is."
        raise MissingRayModuleError(f"{fullname} has no counterpart here: {instead}", name=fullname)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = ModuleType(spec.name, f"Stands in for {spec.name}; see asyncsearch.ray.")
        module.__dict__[_MARK] = True
        return module

    def exec_module(self, module: ModuleType) -> None:
        names = MODULES[module.__name__]

        def get(name: str) -> Any:
            if name in names:
                home, _, attribute = names[name].rpartition(".")
                found = getattr(importlib.import_module(f"{__package__}.{home}"), attribute)
                setattr(module, name, found)
                return found
            if (module.__name__, name) in REFUSED:
                return Refusal(f"{module.__name__}.{name}", REFUSED[module.__name__, name])
            inner = f"{module.__name__}.{name}"
            if inner in MODULES:
                return importlib.import_module(inner)
            raise AttributeError(
                f"{inner} has no counterpart here; docs/migrate_ray.md lists what there is.", name=name
            )

        module.__getattr__ = get  # type: ignore[method-assign]
        module.__all__ = sorted(names)  # type: ignore[attr-defined]  # for ``from ray.tune.schedulers import *``
        if module.__name__ == "ray":
            module.__version__ = VERSION  # type: ignore[attr-defined]


def _finder() -> RayModuleFinder | None:
    return next((one for one in sys.meta_path if isinstance(one, RayModuleFinder)), None)


def is_ours(module: ModuleType | None) -> bool:
    """Return whether a module is a stand-in."""
    return module is not None and bool(getattr(module, "__dict__", {}).get(_MARK))


def install() -> None:
    """Let every later ``import ray`` of this process, and of its workers, give this project's.

    Raises:
        UsageError: Ray is imported already, so that a part of the program has its objects.
    """
    found = sys.modules.get("ray")
    if found is not None and not is_ours(found):
        raise UsageError(
            "Ray is imported already, so that parts of this program have its objects: put `import asyncsearch.ray; "
            "asyncsearch.ray.install()` before the first line that imports ray."
        )
    install_quietly()


def install_quietly() -> None:
    """Install, unless it is done; a worker does so before it unpickles a program's function."""
    if _finder() is None:
        sys.meta_path.insert(0, RayModuleFinder())


def uninstall() -> None:
    """Undo ``install``: a later ``import ray`` finds Ray itself, if it is installed."""
    finder = _finder()
    if finder is not None:
        sys.meta_path.remove(finder)
    for name in [name for name, module in sys.modules.items() if name.partition(".")[0] == "ray" and is_ours(module)]:
        del sys.modules[name]
