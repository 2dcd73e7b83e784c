"""Puts definitions of the user's script into this process's ``__main__``, so that trials can pickle objects of their
own classes.

A function of a script or a notebook is sent by value, with the classes that it uses; each of them names ``__main__`` as
its module. Plain ``pickle`` (joblib and ``torch.save`` use it) names a class by its module and looks it up there, and
in this process ``__main__`` is the runner.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any


def adopt(trainable: object) -> None:
    """Put the classes and functions of a trainable's script into this process's ``__main__``."""
    module = sys.modules["__main__"]
    seen: set[int] = set()
    waiting: list[Any] = [trainable]
    while waiting:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if _is_of_script(found) and not hasattr(module, found.__name__):
            setattr(module, found.__name__, found)
        waiting.extend(_within(found))


def _is_of_script(value: Any) -> bool:
    is_named = isinstance(value, type | FunctionType) and value.__qualname__ == value.__name__
    return is_named and value.__module__ == "__main__"


def _within(value: object) -> Iterator[Any]:
    """Yield the classes and functions that a function or class refers to."""
    if isinstance(value, FunctionType):
        cells = (cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell))
        yield from (item for item in (*value.__globals__.values(), *cells) if isinstance(item, type | FunctionType))
    elif isinstance(value, type) and value.__module__ == "__main__":
        yield from value.__bases__
        yield from (item for item in vars(value).values() if isinstance(item, type | FunctionType))


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
