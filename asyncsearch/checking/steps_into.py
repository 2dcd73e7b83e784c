"""The parts of an object, read without calling code of the object: that may fail, wait, or load from elsewhere."""

from __future__ import annotations

import collections
import ctypes
import re
import sys
import types
from collections.abc import Iterable, Mapping
from typing import Any

from asyncsearch.trainers.state import is_of

_Step = tuple[str, Any]
"""("attr", name) or ("item", key)."""

_READ_MAPPINGS = (types.MappingProxyType, collections.UserDict, collections.ChainMap)
"""Mappings of Python besides dictionaries, which are read by their own methods."""
_RUNNING = frozenset({"asyncio", "concurrent", "joblib", "multiprocessing", "socket", "subprocess", "threading"})
"""Packages whose objects belong to processes, threads and connections: with parts of another, one waits for ever."""
_PLAIN_KEYS = (str, int, float, bool, bytes, type(None))


class Locals:
    """The local variables of a function that is running."""

    def __init__(self, frame: types.FrameType) -> None:
        self.frame = frame

    def items(self) -> list[tuple[str, Any]]:
        return list(self.frame.f_locals.items())

    def __setitem__(self, name: str, value: Any) -> None:
        self.frame.f_locals[name] = value
        if sys.version_info < (3, 13):  # before 3.13, f_locals is a copy that must be written back
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(self.frame), ctypes.c_int(0))


class Key:
    """A key of a dictionary that is any object: to hash it, to compare it or to show it may fail."""

    def __init__(self, key: Any) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Key):
            return False
        try:
            return self.key is other.key or bool(self.key == other.key)
        except Exception:
            return False

    def __hash__(self) -> int:
        try:
            return hash(self.key)
        except Exception:
            return id(self.key)

    def __repr__(self) -> str:
        try:
            return re.sub(r" at 0x[0-9a-f]+", "", repr(self.key))  # the address is another one in each run
        except Exception:
            return f"<{type(self.key).__name__}>"


def plain_key(key: Any) -> Any:
    """Return the key of a dictionary itself."""
    return key.key if isinstance(key, Key) else key


def may_be_read(value: Any) -> bool:
    """Return whether an object may be looked into: a proxy may load what it stands for, a dataset is no state."""
    if _is_tensorflow("data.Dataset", value) or _is_tensorflow("data.Iterator", value):
        return False
    kinds = [kind for kind in type(value).__mro__ if kind is not object]
    if has_attributes(value) and any(kind.__module__.partition(".")[0] in _RUNNING for kind in kinds):
        return False
    return not any(
        "__class__" in vars(kind) and kind.__module__.partition(".")[0] not in ("tensorflow", "wrapt") for kind in kinds
    )


def _is_tensorflow(names: str, value: Any) -> bool:
    """Return whether the class of a value, and not one that it pretends to have, is TensorFlow's."""
    return "__class__" not in vars(type(value)) and is_of("tensorflow", names, value)


def has_attributes(value: Any) -> bool:
    """Return whether an object has attributes of its own."""
    return bool(_slots(type(value))) or _own_dict(value) is not None


def steps_into(value: Any) -> list[tuple[_Step, Any]]:
    """Return the parts of an object: items of a collection, or attributes."""
    kind = type(value)
    if kind is Locals:
        return [(("attr", name), part) for name, part in value.items()]
    if issubclass(kind, dict):
        return [(("item", _key(key)), part) for key, part in list(dict.items(value))]
    if issubclass(kind, list | tuple):
        base: Any = list if issubclass(kind, list) else tuple
        return [(("item", key), part) for key, part in enumerate(base.__iter__(value))]
    if issubclass(kind, _READ_MAPPINGS) or (issubclass(kind, Mapping) and kind.__module__.startswith("tensorflow.")):
        return [(("item", _key(key)), part) for key, part in list(value.items())]
    return [(("attr", name), part) for name, part in _attributes(value)]


def _key(key: Any) -> Any:
    return key if type(key) in _PLAIN_KEYS else Key(key)


def _attributes(value: Any) -> Iterable[tuple[str, Any]]:
    """Yield attributes as they are stored, not by properties and the like."""
    found = dict(_own_dict(value) or {})
    for name, descriptor in _slots(type(value)).items():
        try:
            found.setdefault(name, descriptor.__get__(value))
        except AttributeError:  # it is not set
            continue
    return [(name, part) for name, part in found.items() if not str(name).startswith("__")]


def _slots(kind: type) -> dict[str, Any]:
    return {
        name: member
        for one in kind.__mro__
        for name, member in vars(one).items()
        if isinstance(member, types.MemberDescriptorType) and "__slots__" in vars(one)
    }


def _own_dict(value: Any) -> dict[str, Any] | None:
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None
