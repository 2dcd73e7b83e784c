"""The values that a function or an object captures when it is pickled, each with its description."""

from __future__ import annotations

import dis
import functools
import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any

_MAX_ITEMS = 1_000
"""Maximum number of examined items of a container."""

CapturedPart = tuple[str, Any]
"""A description such as "the closure variable 'model'", and the value."""


def parts(value: object, by_value: Callable[[types.ModuleType], bool]) -> Iterator[CapturedPart]:
    """Yield the parts of a value.

    Args:
        by_value: returns whether a module is sent with all its contents.
    """
    match value:
        case types.FunctionType():
            yield from _parts_of_function(value)
        case types.MethodType():
            yield "the object that it is a method of", value.__self__
            yield "its function", value.__func__
        case functools.partial():
            yield "the function of the partial", value.func
            yield from ((f"the argument {number} of the partial", arg) for number, arg in enumerate(value.args))
            yield from ((f"the argument {name!r} of the partial", arg) for name, arg in value.keywords.items())
        case types.ModuleType():
            if by_value(value):
                names = {name: part for name, part in vars(value).items() if not name.startswith("__")}
                yield from ((f"{name!r}", part) for name, part in names.items())
        case dict():
            yield from ((f"the item {key!r}", item) for key, item in itertools.islice(value.items(), _MAX_ITEMS))
        case list() | tuple() | set() | frozenset():
            yield from ((f"the item {number}", item) for number, item in enumerate(itertools.islice(value, _MAX_ITEMS)))
        case type():
            names = {name: part for name, part in vars(value).items() if name not in ("__dict__", "__weakref__")}
            yield from ((f"the class attribute {name!r}", _plain(part)) for name, part in names.items())
        case _:
            yield from _parts_of_object(value)


def _parts_of_function(function: types.FunctionType) -> Iterator[CapturedPart]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"the closure variable {name!r}", cell.cell_contents
        except ValueError:  # the variable is not assigned yet
            continue
    for name in sorted(_global_names(function.__code__)):
        if name in function.__globals__:
            yield f"the global variable {name!r}", function.__globals__[name]
    arguments = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    for name, default in zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True):
        yield f"the default of the argument {name!r}", default
    for name, default in (function.__kwdefaults__ or {}).items():
        yield f"the default of the argument {name!r}", default
    for name, attribute in vars(function).items():
        yield f"the attribute {name!r}", attribute


def _global_names(code: types.CodeType) -> set[str]:
    names = {str(found.argval) for found in dis.get_instructions(code) if found.opname == "LOAD_GLOBAL"}
    return names.union(*(_global_names(inner) for inner in code.co_consts if isinstance(inner, types.CodeType)))


def _parts_of_object(value: object) -> Iterator[CapturedPart]:
    slots = {
        name: getattr(value, name)
        for kind in type(value).__mro__
        for name in _slot_names(kind)
        if hasattr(value, name) and not name.startswith("__")
    }
    for name, attribute in {**slots, **getattr(value, "__dict__", {})}.items():
        yield f"the attribute {name!r}", attribute
    yield "its class", type(value)


def _slot_names(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _plain(attribute: Any) -> Any:
    """Return the function inside a class attribute, such as a static method."""
    if isinstance(attribute, staticmethod | classmethod):
        return attribute.__func__
    return attribute.fget if isinstance(attribute, property) else attribute
