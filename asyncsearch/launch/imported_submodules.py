"""The loaded modules that a function reaches as attributes of others, ``os.path`` of ``os``: by their names.

cloudpickle looks through all loaded modules for each module of each function. With a framework these are thousands: to
pack a function with its modules then takes longer than to search with it.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import cloudpickle.cloudpickle

_NAME = "_find_imported_submodules"


def imported_submodules(code: types.CodeType, dependencies: Iterable[object]) -> list[types.ModuleType]:
    """Return the modules that cloudpickle would find, in its order.

    Args:
        dependencies: the values of the globals and of the closure that the code reads.
    """
    found: list[types.ModuleType] = []
    for one in dependencies:
        if isinstance(one, types.ModuleType) and getattr(one, "__package__", None):
            names = _reached_from(one.__name__, code.co_names)
            if len(names) > 1:
                order = {name: place for place, name in enumerate(list(sys.modules))}
                names.sort(key=lambda name: order.get(name, len(order)))
            found += [module for name in names if (module := sys.modules.get(name)) is not None]
    return found


def _reached_from(package: str, attributes: Iterable[str]) -> list[str]:
    found: list[str] = []
    waiting = [package]
    while waiting:
        parent = waiting.pop()
        inside = [name for attribute in attributes if (name := f"{parent}.{attribute}") in sys.modules]
        found += inside
        waiting += inside
    return found


@contextmanager
def found_by_name() -> Iterator[None]:
    """Let cloudpickle find them so. Other threads may pickle meanwhile: they find the same."""
    module: Any = cloudpickle.cloudpickle
    before = getattr(module, _NAME, None)
    if before is None:  # a version that finds them in another way
        yield
        return
    setattr(module, _NAME, imported_submodules)
    try:
        yield
    finally:
        setattr(module, _NAME, before)
