"""The variables, attributes and modules that code reads, by its instructions. Pure."""

from __future__ import annotations

import dis
import functools
import itertools
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from asyncsearch.values.function_code import is_own, names_in

_ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER_ATTR"})


class CodeReads(NamedTuple):
    """A code that reads variables."""

    names: frozenset[str]
    """Names of the attributes and globals in it."""
    whole: frozenset[str]
    """Variables that it uses otherwise than by an attribute of theirs."""


def is_own_object(value: Any) -> bool:
    """Return whether a value is an object of a class of the user's own."""
    kind = type(value)
    return is_own(str(kind.__module__)) and not isinstance(value, type | types.FunctionType | types.MethodType)


def names_read(kind: type, names: frozenset[str], method: types.FunctionType | None) -> frozenset[str] | None:
    """Return the attributes that code with these names reads, by methods of the object too. None if perhaps any."""
    found, done = set(names), set[int]()
    waiting = [method] if method is not None else []
    while True:
        waiting += [one for _, one in of_class(kind, found) if isinstance(one, types.FunctionType)]
        fresh = [one for one in waiting if id(one) not in done]
        if not fresh:
            break
        for one in fresh:
            done.add(id(one))
            reader = reads_of(one.__code__)
            if one.__code__.co_argcount and one.__code__.co_varnames[0] in reader.whole:
                return None
            found |= reader.names
    if any(hasattr(type(one), "__get__") and is_own_object(one) for _, one in of_class(kind, found)):
        return None  # a descriptor of the user's own may read any
    return None if "__dict__" in found or _reads_unseen(kind, found) else frozenset(found)


def _reads_unseen(kind: type, names: set[str]) -> bool:
    """Return whether an attribute may be read by code that is not looked at: of a library, or for any name."""
    for base in kind.__mro__[:-1]:
        if "__getattr__" in vars(base) or "__getattribute__" in vars(base):
            return True
        is_known = is_own(str(base.__module__)) or str(base.__module__).startswith("asyncsearch.")
        if not is_known and any(isinstance(vars(base).get(name), types.FunctionType) for name in names):
            return True
    return False


def of_class(kind: type, names: frozenset[str] | set[str]) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of the user's own classes that have one of these names."""
    for name in sorted(names):
        for base in kind.__mro__:
            if name in vars(base) and is_own(str(base.__module__)):
                one = function_in(vars(base)[name])
                one = getattr(one, "__wrapped__", one) if callable(one) else one
                if not isinstance(one, types.MemberDescriptorType | types.GetSetDescriptorType):
                    yield name, one


def function_in(attribute: Any) -> Any:
    """Return the function inside an attribute of a class, such as a property. The attribute itself if there is none."""
    if isinstance(attribute, staticmethod | classmethod):
        return attribute.__func__
    if isinstance(attribute, functools.cached_property):
        return attribute.func
    return attribute.fget if isinstance(attribute, property) else attribute


@functools.lru_cache(maxsize=4_096)
def reads_of(code: types.CodeType) -> CodeReads:
    """Return the names that a code reads."""
    return CodeReads(frozenset(names_in(code)), frozenset(_used_whole(code)))


def _used_whole(code: types.CodeType) -> Iterator[str]:
    instructions = [one for one in dis.get_instructions(code) if one.opname not in ("CACHE", "EXTENDED_ARG", "NOP")]
    for one, following in itertools.pairwise([*instructions, None]):
        if one is None or not one.opname.startswith("LOAD_") or not isinstance(one.argval, str | tuple):
            continue
        is_cell = one.opname == "LOAD_CLOSURE" or (
            one.opname.startswith("LOAD_FAST") and one.argval in code.co_cellvars
        )
        if is_cell or one.opname in ("LOAD_CONST", *_ATTRIBUTE):
            continue
        variables = one.argval if isinstance(one.argval, tuple) else (one.argval,)
        yield from variables[:-1]
        if following is None or following.opname not in _ATTRIBUTE:
            yield variables[-1]
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _used_whole(inner)


def texts_in(code: types.CodeType) -> Iterator[str]:
    """Yield the texts in a code and in those inside it."""
    for one in code.co_consts:
        if isinstance(one, str):
            yield one
        elif isinstance(one, types.CodeType):
            yield from texts_in(one)


def modules_read(names: frozenset[str] | set[str], known: Mapping[str, Any]) -> list[types.ModuleType]:
    """Return the modules that code with these names reaches, also through other modules."""
    waiting = [known.get(name, sys.modules.get(name)) for name in sorted(names)]
    found: dict[int, types.ModuleType] = {}
    while waiting:
        module = waiting.pop()
        if isinstance(module, types.ModuleType) and id(module) not in found:
            found[id(module)] = module
            waiting += [vars(module)[name] for name in sorted(names & vars(module).keys())]
    return list(found.values())


def relatives(function: types.FunctionType) -> Mapping[str, types.ModuleType]:
    """Return the modules that a function may import by a relative name."""
    package = function.__globals__.get("__package__")
    if not package:
        return {}
    places = ((name, sys.modules.get(f"{package}.{name}")) for name in reads_of(function.__code__).names)
    return {name: module for name, module in places if module is not None}
