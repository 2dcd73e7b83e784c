"""Puts the globals of the user's script into this process's ``__main__``, so that trials can pickle objects of their
own classes.

A function of a script or a notebook is sent by value, with the globals that it uses; its classes name ``__main__`` as
their module. Plain ``pickle`` (joblib and ``torch.save`` use it) names a class by its module and looks it up there, and
in this process ``__main__`` is the runner.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any

from asyncsearch.runner.code_reads import function_in

_MAX_ITEMS = 100
"""Maximum number of examined items of a container."""


def adopt(trainable: object) -> None:
    """Put the globals, classes and functions of a trainable's script into this process's ``__main__``."""
    module = sys.modules["__main__"]
    adopted: set[str] = set()
    seen: dict[int, Any] = {}
    waiting: list[Any] = [trainable]
    while waiting:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen[id(found)] = found
        for name, value in _named(found):
            if name not in adopted:
                adopted.add(name)
                setattr(module, name, value)
        waiting.extend(_within(found))


def _named(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and values for the module: a definition of the script, and globals that a function of it reads."""
    if isinstance(value, type | FunctionType | functools._lru_cache_wrapper):
        if _is_of_script(value) and value.__qualname__ == value.__name__:
            yield value.__name__, value
        if isinstance(value, FunctionType) and _is_of_script(value):
            yield from ((name, one) for name, one in value.__globals__.items() if not name.startswith("__"))


def _is_of_script(value: Any) -> bool:
    return bool(value.__module__ == "__main__")


def _within(value: Any) -> Iterator[Any]:
    """Yield values that may be, or lead to, a definition of the script."""
    match value:
        case FunctionType():
            if value.__globals__.get("__name__") == "__main__":
                yield from value.__globals__.values()
            yield from (cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell))
            if hasattr(value, "__wrapped__"):
                yield value.__wrapped__
        case functools._lru_cache_wrapper():
            yield value.__wrapped__
        case MethodType():
            yield from (value.__func__, value.__self__)
        case functools.partial():
            yield from (value.func, value.args, value.keywords)
        case type():
            if _is_of_script(value):
                yield from value.__bases__
                yield from map(function_in, vars(value).values())
        case dict():
            yield from itertools.islice(value.values(), _MAX_ITEMS)
        case list() | tuple() | set() | frozenset():
            yield from itertools.islice(value, _MAX_ITEMS)
        case _:
            if _is_of_script(type(value)):
                yield from (type(value), getattr(value, "__dict__", {}))


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
