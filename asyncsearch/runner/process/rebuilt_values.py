"""Values that pickle cannot write by itself, made again where a trainable is unpickled."""

from __future__ import annotations

import functools
import importlib
import uuid
import weakref
from collections.abc import Callable, Mapping
from typing import Any


class SharedValue:
    """The value of a broadcast variable of Spark, which only tasks of Spark itself can fetch."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def unpersist(self, blocking: bool = False) -> None:
        """Do nothing: the worker's copy ends with the worker."""

    destroy = unpersist


class SentClasses:
    """The classes that this process has sent, each with a text that stands for it."""

    def __init__(self) -> None:
        self.tokens: weakref.WeakKeyDictionary[type, str] = weakref.WeakKeyDictionary()
        self.originals: weakref.WeakValueDictionary[str, type] = weakref.WeakValueDictionary()


_sent = SentClasses()


def token_of(kind: type) -> str:
    """Return a text that stands for a class of this process, which sends it."""
    token = _sent.tokens.setdefault(kind, uuid.uuid4().hex)
    _sent.originals[token] = kind
    return token


def make_class(token: str, make: Callable[..., type], arguments: tuple[Any, ...]) -> type:
    """Return a class, which ``fill_class`` completes; the process that sent it goes on with its own one.

    There a second one would be entered into the registries of its bases.
    """
    original = _sent.originals.get(token)
    return make(*arguments) if original is None else original


def fill_class(kind: type, content: tuple[Callable[[type, Any], object], Any]) -> None:
    """Give a class its content, unless this process is the one that sent it."""
    fill, state = content
    if kind not in _sent.tokens:
        fill(kind, state)


def fill_registered(value: Any, content: tuple[str, Callable[[Any, Any], object], Any]) -> None:
    """Complete a function or class, and enter it into Keras, which loads models with it by this name."""
    name, fill, state = content
    fill(value, state)
    saving = importlib.import_module("keras.saving")
    if name in saving.get_custom_objects():  # this process has its own one
        return
    package, mark, last = name.rpartition(">")
    if mark:
        saving.register_keras_serializable(package, last)(value)
    else:
        saving.get_custom_objects()[name] = value


def cached(function: Callable[..., Any], maxsize: int | None, typed: bool) -> Any:
    """Return a function with an empty cache, as ``functools.lru_cache`` makes it."""
    return functools.lru_cache(maxsize, typed)(function)


def cached_property(name: str | None) -> functools.cached_property[Any]:
    """Return a property that ``set_attributes`` completes."""
    made: functools.cached_property[Any] = functools.cached_property(_unset)
    made.attrname = name
    return made


def dispatching(function: Callable[..., Any]) -> Any:
    """Return a function that ``functools.singledispatch`` makes, with its general case alone."""
    return functools.singledispatch(function)


def set_attributes(value: Any, attributes: Mapping[str, Any]) -> None:
    """Set the attributes of a value that was made again: they may refer to the value itself."""
    for name, attribute in attributes.items():
        setattr(value, name, attribute)


def set_cases(function: Any, state: tuple[Mapping[type, Callable[..., Any]], Mapping[str, Any]]) -> None:
    """Give a dispatching function its cases and its attributes."""
    cases, attributes = state
    for kind, case in cases.items():
        function.register(kind, case)
    set_attributes(function, attributes)


def _unset(_owner: Any) -> None:
    """Stand in for the function of a property until it is known."""
