"""Keys of values that a traced step reads as constants: equal ones only for values that compute the same.

The step of a stack is traced once, with the values of its first member. Two values whose keys are equal by mistake
would give a member the results of another one, so what is not known is equal to itself alone.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType, MethodType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from asyncsearch.trainers.keras.traced_values import Itself

_PLAIN = (int, float, str, bytes, type(None), type, CodeType, np.generic, np.dtype, tf.DType)
_DEPTH = 3
"""Levels of objects and functions inside each other that are compared; a cycle of them would have no end."""
_NAMES = frozenset({"name", "seed"})
"""Settings of a layer that do not tell how it computes."""


def key_of(value: Any, depth: int = _DEPTH) -> Any:
    """Return something hashable that is equal for values that compute the same."""
    if isinstance(value, _PLAIN):
        return type(value), value
    inner = functools.partial(key_of, depth=depth)
    if isinstance(value, np.ndarray | tf.Tensor):
        array = np.asarray(value)
        return array.shape, str(array.dtype), array.tobytes()
    if isinstance(value, Mapping):
        return "mapping", frozenset((inner(name), inner(one)) for name, one in value.items())
    if isinstance(value, Sequence | set | frozenset):
        return "items", (tuple if isinstance(value, Sequence) else frozenset)(map(inner, value))
    if depth == 0:
        return Itself(value)
    if isinstance(value, FunctionType):
        return _of_function(value, depth)
    if isinstance(value, MethodType):
        is_own = isinstance(value.__self__, keras.layers.Layer)  # whose other values are compared beside this one
        owner = None if is_own or not _reads_owner(value.__func__) else Itself(value.__self__)
        return inner(value.__func__), owner
    if isinstance(value, functools.partial):
        return inner(value.func), inner(value.args), inner(value.keywords)
    return _of_object(value, depth)


def _of_function(function: FunctionType, depth: int) -> Any:
    """Return the key of a function: equal code may have other values around it."""
    if function.__module__.partition(".")[0] in ("keras", "tensorflow"):
        return Itself(function)
    try:
        around = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # it names what is not there yet
        return Itself(function)
    values = (function.__defaults__, function.__kwdefaults__, around)
    return function.__code__, Itself(function.__globals__), *(key_of(one, depth - 1) for one in values)


def _reads_owner(function: Any) -> bool:
    """Return whether a method mentions the object that it belongs to."""
    code = getattr(function, "__code__", None)
    if code is None or not code.co_varnames:
        return True
    owner = code.co_varnames[0]
    found = (one.argval for one in dis.get_instructions(code))
    return any(owner in (one if isinstance(one, tuple) else (one,)) for one in found)


def _of_object(value: Any, depth: int) -> Any:
    """Return the key of an object: its class, its configuration, and its attributes where the class is not Keras's."""
    kind = type(value)
    if isinstance(value, keras.layers.Layer | keras.Variable) or any("__slots__" in vars(one) for one in kind.__mro__):
        return Itself(value)
    if isinstance(value, keras.DTypePolicy):
        return kind, value.name
    if kind.__module__.startswith("keras."):
        config = getattr(value, "get_config", None)
        return Itself(value) if config is None else (kind, key_of(without_names(config()), depth - 1))
    if not hasattr(value, "__dict__"):
        return Itself(value)
    is_counted = any(one.__module__.startswith("keras.") for one in kind.__mro__)
    found = {name: one for name, one in vars(value).items() if not (is_counted and name == "name")}
    return kind, key_of(found, depth - 1)


def without_names(value: Any, names: Mapping[str, str] | None = None) -> Any:
    """Return a configuration without the names that Keras gives layers, which count on in a process."""
    if isinstance(value, Mapping):
        if str(value.get("class_name")).endswith("DTypePolicy"):  # whose name is all that it has
            return value
        return {key: without_names(one, names) for key, one in value.items() if key not in _NAMES}
    if isinstance(value, list | tuple):
        return [without_names(one, names) for one in value]
    return names.get(value, value) if names and isinstance(value, str) else value
