"""The parts of the user's own modules that a trainable uses, by reading its code and the values that it captures."""

from __future__ import annotations

import dis
import functools
import itertools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from asyncsearch.launch.own_modules import OwnModules
from asyncsearch.runner.code_reads import function_in
from asyncsearch.values.function_code import captured_by, names_in, slots_of

_MAX_VALUES = 20_000
_LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]
_PLAIN = (str, bytes, int, float, complex, bool, type(None))


class Reach:
    """The globals that the code of a trainable may read, followed through the functions and objects that it uses."""

    def __init__(self, own: OwnModules, trainable: object) -> None:
        self._own = own
        self.direct: set[tuple[str, str]] = set()
        """(full name of the module, name of the global) that the trainable has at hand when it begins."""
        self.imported: set[tuple[str, str]] = set()
        """Those that it gets by an ``import`` while it runs."""
        self._seen: dict[int, Any] = {}
        later: list[Any] = []
        self._follow([trainable], self.direct, later)
        self._follow(later, self.imported, later)

    def _follow(self, waiting: list[Any], found: set[tuple[str, str]], later: list[Any]) -> None:
        while waiting and len(self._seen) < _MAX_VALUES:
            value = waiting.pop()
            if isinstance(value, _PLAIN) or id(value) in self._seen:
                continue
            self._seen[id(value)] = value
            if isinstance(value, types.FunctionType | type) and _is_installed(value, self._own):
                continue
            if isinstance(value, types.FunctionType):
                self._read(value, waiting, found, later)
            if isinstance(value, types.ModuleType):
                waiting += self._all_of(value, found)
                continue
            # Of a module that its code names, a function uses what it reads there.
            passed = (*_PLAIN, types.ModuleType) if isinstance(value, types.FunctionType) else _PLAIN
            try:
                waiting += [part for _, part in parts(value, lambda _: False) if not isinstance(part, passed)]
            except Exception:  # of an attribute of the user's own
                continue
            if (wrapped := getattr(value, "__wrapped__", None)) is not None:
                waiting.append(wrapped)

    def _read(
        self, function: types.FunctionType, waiting: list[Any], found: set[tuple[str, str]], later: list[Any]
    ) -> None:
        names = set(names_in(function.__code__))
        module = self._own.module_of_function(function)
        known = {**{name: function.__globals__.get(name) for name in names}, **_cells(function)}
        present = [value for value in known.values() if isinstance(value, types.ModuleType)]
        if module is not None:
            found |= {(module.__name__, name) for name in names if name in vars(module)}
        for used in present:
            if self._own.get(used.__name__) is used:
                waiting += self._attributes(used, names, found)
        for name in _imported(function.__code__, self._own):
            other = self._own.get(name)
            if other is not None and other not in present:
                later += self._attributes(other, names, self.imported)

    def _all_of(self, module: types.ModuleType, found: set[tuple[str, str]]) -> list[Any]:
        """Return all globals of a module that something holds as a value."""
        if self._own.get(module.__name__) is not module:
            return []
        found |= {(module.__name__, name) for name in vars(module)}
        return list(vars(module).values())

    def _attributes(self, module: types.ModuleType, names: set[str], found: set[tuple[str, str]]) -> list[Any]:
        read: dict[Any, Any] = {name: value for name, value in dict(vars(module)).items() if name in names}
        found |= {(module.__name__, name) for name in read}
        for value in list(read.values()):
            if not isinstance(value, types.ModuleType) or self._own.get(value.__name__) is not value:
                continue
            if (value.__name__, "") not in found:
                found.add((value.__name__, ""))
                read.update(enumerate(self._attributes(value, names, found)))
        return list(read.values())


def _cells(function: types.FunctionType) -> dict[str, Any]:
    """Return the values of the closure variables that are assigned."""
    cells = zip(function.__code__.co_freevars, captured_by(function), strict=True)
    return {name: value for name, value in cells if value is not Ellipsis}


def _is_installed(value: types.FunctionType | type, own: OwnModules) -> bool:
    name = value.__globals__.get("__name__") if isinstance(value, types.FunctionType) else value.__module__
    module = sys.modules.get(str(name))
    return module is not None and module.__name__ != "__main__" and own.get(module.__name__) is None


def _imported(code: types.CodeType, own: OwnModules) -> Iterator[str]:
    yield from own.imported_by(code)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _imported(inner, own)


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
            yield from ((f"the class attribute {name!r}", function_in(part)) for name, part in names.items())
        case _:
            yield from _parts_of_object(value)


def _parts_of_function(function: types.FunctionType) -> Iterator[CapturedPart]:
    yield from ((f"the closure variable {name!r}", value) for name, value in _cells(function).items())
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
    """Return the globals that a code loads, as ``dis`` finds them, which takes 20 times as long."""
    operations, arguments, names = code.co_code[::2], code.co_code[1::2], set()
    at = operations.find(_LOAD_GLOBAL)
    while at >= 0:
        argument, before = arguments[at], at - 1
        while before >= 0 and operations[before] == dis.EXTENDED_ARG:
            argument += arguments[before] << 8 * (at - before)
            before -= 1
        names.add(code.co_names[argument >> 1])  # the lowest bit asks for a NULL below the value
        at = operations.find(_LOAD_GLOBAL, at + 1)
    return names.union(*(_global_names(inner) for inner in code.co_consts if isinstance(inner, types.CodeType)))


def _parts_of_object(value: object) -> Iterator[CapturedPart]:
    slots = {name: one for name, one in slots_of(value).items() if not name.startswith("__")}
    for name, attribute in {**slots, **getattr(value, "__dict__", {})}.items():
        yield f"the attribute {name!r}", attribute
    yield "its class", type(value)
