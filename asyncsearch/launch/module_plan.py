"""Decides how a module of the user's own travels: which globals are left out, and whether workers execute it."""

from __future__ import annotations

import abc
import enum
import functools
import io
import types
from collections.abc import Callable
from typing import Any

from asyncsearch.launch.own_modules import OwnModules, own_members, source_of, submodules
from asyncsearch.launch.reach import Reach
from asyncsearch.launch.value_pickler import UnsendableError, spark_words

LARGE_BYTES = 1_000_000
"""Size above which a global that the trainable does not use is left out."""
_PLAIN = (str, bytes, int, float, complex, bool, type(None), types.ModuleType)
_DEFINED = (*_PLAIN, type, types.FunctionType, types.BuiltinFunctionType, functools._lru_cache_wrapper)
_KINDS = (type, abc.ABCMeta, enum.EnumMeta)
_KNOWN = frozenset({"abc", "enum", "typing", "typing_extensions"})
"""Modules whose metaclasses let a class be made first and filled later, as an unpickled class is."""

SizeOrError = Callable[[object, OwnModules, int], tuple[int, Exception | None]]
"""Returns the pickled size of a value, up to a limit, and the error of pickling it."""

Mentions = Callable[[object, OwnModules], set[str]]
"""Returns the own modules that a value refers to, however deep inside."""


class UsedGlobalError(Exception):
    """A global of a module that the trainable uses, and that no worker can have."""

    def __init__(self, module: str, name: str, value: object, error: Exception) -> None:
        super().__init__(str(error))
        self.words = f"the global variable {name!r} of the module {module}"
        self.value, self.error = value, error


def decide(own: OwnModules, name: str, reach: Reach, size_or_error: SizeOrError) -> None:
    """Plan how a module is sent.

    Raises:
        UsedGlobalError: the trainable uses a value of it that no worker can have.
    """
    module = own.get(name)
    assert module is not None
    left_out: dict[str, str] = {}
    cause = ""
    for key, value in own_members(module):
        if _is_plain(value):
            continue
        used = (name, key) in reach.direct or (name, key) in reach.imported
        size, error = size_or_error(value, own, LARGE_BYTES)
        if error is not None:
            if used and (isinstance(error, UnsendableError) or _is_refused(value)):
                raise UsedGlobalError(name, key, value, error)
            left_out[key] = f"it is of type {type(value).__qualname__}, which cannot be pickled"
            cause = cause or (f"its global variable {key!r} ({type_name(value)})" if used else "")
        elif size > LARGE_BYTES and (name, key) not in reach.direct:
            left_out[key] = "it is large, and the trainable does not mention it"
            if used:
                cause = cause or f"its global variable {key!r}, which is large"
    own.sent[name] = left_out
    if cause or name in own.odd or _has_hooks(own, module):
        _execute(own, name, cause)


def execute_importers(own: OwnModules, mentions: Mentions) -> None:
    """Execute also what refers to executed modules: what comes by value must be complete before them."""
    if not own.executed:
        return
    inside: dict[str, set[str]] = {}
    waiting = True
    while waiting:
        waiting = False
        for module in own.by_value():
            name = module.__name__
            if any(_refers(value, own) for _, value in own_members(module)):
                _execute(own, name, "")
                waiting = True
                continue
            if name not in inside:
                data = content_of(own, module, is_data=True).values()
                inside[name] = set[str]().union(*(mentions(value, own) for value in data))
            if inside[name] & own.executed.keys():
                _execute(own, name, "")
                waiting = True


def content_of(own: OwnModules, module: types.ModuleType, *, is_data: bool) -> dict[str, Any]:
    """Return the globals that are sent of a module: its definitions and plain values, or the objects that it holds."""
    left_out = own.left_out(module.__name__)
    content = {
        name: value
        for name, value in own_members(module)
        if name not in left_out and is_data != isinstance(value, _DEFINED)
    }
    by_value = {one.__name__ for one in own.by_value()}
    inside = {} if is_data else {name: one for name, one in submodules(module) if one.__name__ in by_value}
    return content | inside


def state_of_executed(own: OwnModules, size_or_error: SizeOrError) -> dict[str, dict[str, Any]]:
    """Return the values here of the globals of executed modules, and of attributes of their classes."""
    return {name: _state(own, name, size_or_error) for name, source in own.executed.items() if source is not None}


def _state(own: OwnModules, name: str, size_or_error: SizeOrError) -> dict[str, Any]:
    module = own.get(name)
    assert module is not None
    found: dict[str, Any] = {}
    for key, value in own_members(module):
        if key.startswith("__") or key in own.left_out(name):
            continue
        if isinstance(value, enum.EnumMeta):
            continue  # its members are constants
        if isinstance(value, type) and own.module_of_class(value) is module and own.has_member(module, value):
            attributes = {part: one for part, one in vars(value).items() if _is_state(part, one)}
            found |= {f"{key}.{part}": one for part, one in attributes.items() if _is_small(one, own, size_or_error)}
        elif _is_state(key, value) and not isinstance(value, types.ModuleType):
            found[key] = value
    return found


def _is_state(name: str, value: Any) -> bool:
    """Return whether a value may have changed since its module was executed, and is not compared by identity alone."""
    return (
        not name.startswith("__")
        and not callable(value)
        and not hasattr(value, "__get__")
        and type(value) is not object
    )


def _is_small(value: Any, own: OwnModules, size_or_error: SizeOrError) -> bool:
    if _is_plain(value):
        return True
    size, error = size_or_error(value, own, LARGE_BYTES)
    return error is None and size <= LARGE_BYTES


def _execute(own: OwnModules, name: str, cause: str) -> None:
    module = own.get(name)
    assert module is not None
    own.executed[name] = source_of(module)
    if cause or own.executed[name] is None:
        own.reasons[name] = cause


def _refers(value: Any, own: OwnModules) -> bool:
    if isinstance(value, types.ModuleType):
        return own.goes_by_name(value.__name__) and own.get(value.__name__) is value
    kind = value if isinstance(value, type | types.FunctionType) else type(value)
    return own.goes_by_name(str(kind.__module__))


def _has_hooks(own: OwnModules, module: types.ModuleType) -> bool:
    """Return whether making a class of a module calls code of the user's own, which a copy of it may not survive."""
    for kind in vars(module).values():
        if not isinstance(kind, type) or own.module_of_class(kind) is not module:
            continue
        if any(
            "__init_subclass__" in vars(base) and own.module_of_class(base) is not None for base in kind.__mro__[1:]
        ):
            return True
        # One of a library, such as that of msgspec or ctypes, lays an object out when the class is made.
        if type(kind) not in _KINDS and type(kind).__module__ not in _KNOWN:
            return True
    return False


def _is_refused(value: Any) -> bool:
    """Return whether a value must not be made again: to open a file for writing empties it."""
    if spark_words(value) is not None:
        return True
    return isinstance(value, io.IOBase) and not getattr(value, "closed", True) and value.writable()


def _is_plain(value: Any) -> bool:
    if isinstance(value, _PLAIN):
        return not isinstance(value, str | bytes) or len(value) < LARGE_BYTES
    if not isinstance(value, types.FunctionType):
        return False
    return not (value.__closure__ or value.__defaults__ or value.__kwdefaults__ or vars(value))


def type_name(value: object) -> str:
    """Return the name of a value's type, with its module unless that is Python's own."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
