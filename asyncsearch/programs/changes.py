"""The values that an objective changes in its worker and its program reads on the driver: there they are not changed.

Globals, variables of the functions around it and attributes are compared before and after a worker's first trial, as
far as they are plain values and small containers; files, in the working folder, where that is not the driver's.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import socket
import types
from collections.abc import Iterator, Mapping
from typing import Any

import cloudpickle

_MOST = 10_000
"""Entries beyond which a container is not compared: each comparison pickles all of it."""
_PLAIN = (bool, int, float, str, bytes, type(None))
_CONTAINERS = (list, dict, set, bytearray)


class Watch:
    """The values that an objective could change, as they were before its first trial."""

    def __init__(self, function: Any, home: tuple[str, str]) -> None:
        """Begin; ``home`` is the driver's host and working folder."""
        self._function = function
        self._before = _digests(function)
        self._files = None if home == here() else _files()

    def changed(self) -> list[str]:
        """Return the names of the values that have changed, and the files that are new."""
        after = _digests(self._function)
        names = [name for name, digest in self._before.items() if after.get(name, digest) != digest]
        new = [] if self._files is None else sorted(_files() - self._files)
        return [*names, *[f"the file {name!r}" for name in new[:3]]]


def words_of(names: list[str], advice: str) -> str:
    """Return a sentence on what a worker's trial has changed; ``advice`` says how a trial gives what it has found."""
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return (
        f"The objective changes {shown} on its worker, and the program does not see it here: give each trial what it "
        f"has found by {advice}."
    )


def here() -> tuple[str, str]:
    """Return the host and the working folder of this process."""
    try:
        return socket.gethostname(), os.getcwd()
    except OSError:
        return socket.gethostname(), ""


def _files() -> frozenset[str]:
    try:
        return frozenset(os.listdir())
    except OSError:
        return frozenset()


def _digests(function: Any) -> dict[str, bytes]:
    return {name: digest for name, value in _values(function) if (digest := _digest(value)) is not None}


def _digest(value: Any) -> bytes | None:
    """Return a digest that differs once a value has changed. None if the value is not compared."""
    if not isinstance(value, (*_PLAIN, *_CONTAINERS)) or (isinstance(value, _CONTAINERS) and len(value) > _MOST):
        return None
    try:
        return hashlib.sha256(cloudpickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)).digest()
    except Exception:
        return None


def _values(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values that a function could change, each with its name in the program."""
    if isinstance(function, functools.partial):
        for place, value in enumerate(function.args):
            yield from _inside(f"argument {place}", value)
        for name, value in function.keywords.items():
            yield from _inside(name, value)
        yield from _values(function.func)
        return
    owner = getattr(function, "__self__", None)
    if owner is None and not isinstance(function, types.FunctionType):
        owner = function
    if owner is not None and not isinstance(owner, types.ModuleType):
        yield from _inside("self", owner)
    plain = getattr(function, "__func__", function)
    if not isinstance(plain, types.FunctionType):
        plain = vars(type(function)).get("__call__")
    if isinstance(plain, types.FunctionType):
        yield from _of_code(plain)


def _of_code(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield from _inside(name, cell.cell_contents)
        except ValueError:  # it is not assigned yet
            continue
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield from _inside(name, function.__globals__[name])


def _names(code: types.CodeType) -> set[str]:
    inner = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return set(code.co_names).union(*[_names(one) for one in inner])


def _inside(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a value, and the attributes of an object of the program's own."""
    yield name, value
    kind = type(value)
    attributes = getattr(value, "__dict__", None)
    is_own = not isinstance(value, type | types.ModuleType | types.FunctionType) and kind.__module__ == "__main__"
    if isinstance(attributes, Mapping) and (is_own or name == "self"):
        for attribute, inner in attributes.items():
            yield f"{name}.{attribute}", inner
