"""What a call of ``trial.once`` depends on, as a digest: the function's code, what it captures and the globals, helpers
and attributes that it reads.

Of an object of the user's own, the attributes that the code reads count: a trainer that reads ``self.path`` while it
loads gets what another trainer with this path has loaded. A value without comparable content, such as a connection,
counts as the object that it is.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import itertools
import os
import pickle
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from asyncsearch.sequences.function_code import (
    ContentWalk,
    captured_by,
    digest_of,
    is_own,
    names_in,
    slots_of,
)
from asyncsearch.trainable import TrialContext

_MANY_ITEMS = 1_000
_ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER_ATTR"})
_ALIKE = ("_thread", "threading", "logging")
"""Modules of values that carry no data: locks and loggers."""
_OF_TRIAL = frozenset({"params", "seed", "max_resource"})
_BY_TEXT = frozenset({"getattr", "globals", "vars", "__dict__", "import_module", "environ", "getenv"})
"""Names of what reads variables, modules and the environment by texts."""


class CallIdentity(NamedTuple):
    """What a call depends on."""

    head: str
    """The code of the function and its arguments."""
    digest: str
    """All that it depends on."""
    objects: tuple[int, ...]
    """Numbers of the objects that count as themselves."""
    kinds: tuple[str, ...]
    """Names of their types."""


def identity_of(function: Callable[..., Any], args: tuple[Any, ...]) -> CallIdentity:
    """Return what ``function(*args)`` depends on."""
    inner = function
    given: tuple[tuple[Any, ...], dict[str, Any]] = (args, {})
    while isinstance(inner, functools.partial):
        given = ((*inner.args, *given[0]), {**inner.keywords, **given[1]})
        inner = inner.func
    walk = _OnceWalk()
    arguments = walk.describe(list(given))
    plain = inner.__func__ if isinstance(inner, types.MethodType) else inner
    name = f"{getattr(plain, '__module__', '')}.{getattr(plain, '__qualname__', type(plain).__qualname__)}"
    code = getattr(plain, "__code__", None)
    head = digest_of([name, "" if code is None else walk.describe(code), arguments])
    text = walk.callable(inner)
    found = [f"{part}={one}" for part, one in sorted(walk.found().items())]
    objects = tuple(sorted(walk.objects))
    digest = digest_of([head, text, *found, *map(str, objects)])
    kinds = tuple(sorted(set(walk.objects.values())))
    return CallIdentity(head, digest, objects, kinds)


class _Reader(NamedTuple):
    """A code that reads variables."""

    names: frozenset[str]
    """Names of the attributes and globals in it."""
    whole: frozenset[str]
    """Variables that it uses otherwise than by an attribute of theirs."""


class _OnceWalk(ContentWalk):
    """Describes what a function depends on."""

    def __init__(self) -> None:
        super().__init__(with_data=True)
        self.objects: dict[int, str] = {}
        """Number -> type of each object that counts as itself."""
        self._reader = _Reader(frozenset(), frozenset())
        self._parts: set[tuple[int, frozenset[str]]] = set()
        self._modules: set[int] = set()

    def describe(self, value: Any) -> str:
        """Return a text that is equal for values of equal content; of a module of the user's own, all that is in it."""
        if isinstance(value, types.ModuleType) and is_own(value.__name__):
            return self._module(value)
        return super().describe(value)

    def _module(self, module: types.ModuleType) -> str:
        if id(module) not in self._modules:
            self._modules.add(id(module))
            for name, value in dict(vars(module)).items():
                if not (name.startswith("__") and name.endswith("__")):
                    self._attribute(name, value)
        return f"module {module.__name__}"

    def callable(self, function: Callable[..., Any]) -> str:
        """Describe what is called: of an object of the user's own, what its method reads."""
        if not isinstance(function, type | types.FunctionType | types.MethodType) and _is_own_object(function):
            return self._part(function, frozenset({"__call__"}))
        return self.describe(function)

    def _inside(self, value: Any) -> str:
        if isinstance(value, types.MethodType):
            return f"method {self.describe(value.__func__)} {self._of_method(value.__self__, value.__func__)}"
        if isinstance(value, types.BuiltinMethodType | types.MethodWrapperType):
            owner = value.__self__
            is_module = owner is None or isinstance(owner, types.ModuleType)
            return f"builtin {value.__qualname__} {value.__module__ if is_module else self.describe(owner)}"
        if isinstance(value, types.MappingProxyType):
            return f"proxy {self.describe(dict(value))}"
        if isinstance(value, list | tuple | dict | set | frozenset) and len(value) > _MANY_ITEMS:
            try:
                return f"many {_digest_of_pickle(value)}"
            except Exception:  # one by one
                return super()._inside(value)
        return super()._inside(value)

    def _of_method(self, owner: Any, function: Any) -> str:
        if not _is_own_object(owner) or not isinstance(function, types.FunctionType):
            return self.describe(owner)
        return self._part(owner, frozenset({function.__name__, *names_in(function.__code__)}), function)

    def _object(self, value: Any) -> str:
        if isinstance(value, TrialContext):
            return self._as_itself(value)
        if type(value).__module__ in _ALIKE:
            return f"{type(value).__qualname__} {getattr(value, 'name', '')}"
        if _is_own_object(value):
            return super()._object(value)
        if hasattr(value, "__wrapped__") or (hasattr(value, "__qualname__") and not hasattr(value, "__dict__")):
            return super()._object(value)
        try:
            return f"{self._name(type(value))} {_digest_of_pickle(value)}"
        except Exception:  # of a connection, a generator, a file
            return self._as_itself(value)

    def _as_itself(self, value: Any) -> str:
        number = _number(value)
        self.objects[number] = type(value).__qualname__
        return f"object {number}"

    def _function(self, function: types.FunctionType) -> str:
        before, self._reader = self._reader, _reader(function.__code__)
        try:
            self._globals(function.__code__, {**_relatives(function), **function.__globals__})
            cells = zip(function.__code__.co_freevars, captured_by(function), strict=True)
            captured = [self._read(name, value) for name, value in cells]
            rest = (function.__code__, function.__defaults__, function.__kwdefaults__, vars(function))
            return f"{captured} {self._all(rest)}"
        finally:
            self._reader = before

    def _globals(self, code: types.CodeType, known: Mapping[str, Any]) -> None:
        """Collect what the names in a function's code stand for, in modules inside modules, and its environment."""
        super()._globals(code, known)
        texts = set(_texts_in(code)) if self._reader.names & _BY_TEXT else set[str]()
        for name in sorted(texts & known.keys()):
            if not isinstance(known[name], types.ModuleType):
                self._global(name, known[name])
        names = self._reader.names | texts
        for module in _modules_read(names, known):
            if is_own(module.__name__):
                for name in sorted(names & vars(module).keys()):
                    if not isinstance(vars(module)[name], types.ModuleType):
                        self._attribute(name, vars(module)[name])
        for name in sorted(self._reader.whole & known.keys()):
            if isinstance(known[name], types.ModuleType):
                self.describe(known[name])
        if self._reader.names & {"environ", "getenv"}:
            self._collect("environ", repr([(name, os.environ.get(name)) for name in sorted(texts)]))

    def _global(self, name: str, value: Any) -> None:
        self._collect(name, self._read(name, value))

    def _attribute(self, name: str, value: Any) -> None:
        self._collect(name, self.describe(value))

    def _collect(self, name: str, text: str) -> None:
        if not text.startswith("uses "):
            self._found.setdefault(name, set()).add(digest_of([text]))

    def _read(self, variable: str, value: Any) -> str:
        """Describe the value of a variable, as far as the present code reads it."""
        if variable in self._reader.whole:
            return self.describe(value)
        if isinstance(value, TrialContext):
            return self._trial(value, self._reader.names)
        return self._part(value, self._reader.names) if _is_own_object(value) else self.describe(value)

    def _trial(self, trial: TrialContext, names: frozenset[str]) -> str:
        if not names & {name for name in dir(TrialContext) if not name.startswith("_")} - {"once"} <= _OF_TRIAL:
            return self._as_itself(trial)
        return self._all((dict(trial.params), trial.seed, trial.max_resource))

    def _part(self, value: Any, names: frozenset[str], method: types.FunctionType | None = None) -> str:
        """Describe an object as far as code with these names reads it."""
        found = _names_read(type(value), names, method)
        if found is None:
            return self.describe(value)
        if (id(value), found) in self._parts:
            return "again"
        self._parts.add((id(value), found))
        texts = [f"{type(value).__module__}.{type(value).__qualname__}"]
        for name, one in sorted({**slots_of(value), **getattr(value, "__dict__", {})}.items()):
            if name in found:
                texts.append(
                    f"{name} {self._trial(one, found) if isinstance(one, TrialContext) else self.describe(one)}"
                )
        for name, one in _of_class(type(value), found):
            texts.append(
                f"class {name} {self._function(one) if isinstance(one, types.FunctionType) else self.describe(one)}"
            )
        return digest_of(texts)


def _is_own_object(value: Any) -> bool:
    kind = type(value)
    return is_own(str(kind.__module__)) and not isinstance(value, type | types.FunctionType | types.MethodType)


def _names_read(kind: type, names: frozenset[str], method: types.FunctionType | None) -> frozenset[str] | None:
    """Return the attributes that code with these names reads of an object, by its methods too; None: perhaps any."""
    found, done = set(names), set[int]()
    waiting = [method] if method is not None else []
    while True:
        waiting += [one for _, one in _of_class(kind, found) if isinstance(one, types.FunctionType)]
        fresh = [one for one in waiting if id(one) not in done]
        if not fresh:
            break
        for one in fresh:
            done.add(id(one))
            reader = _reader(one.__code__)
            if one.__code__.co_argcount and one.__code__.co_varnames[0] in reader.whole:
                return None
            found |= reader.names
    if any(hasattr(type(one), "__get__") and _is_own_object(one) for _, one in _of_class(kind, found)):
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


def _of_class(kind: type, names: frozenset[str] | set[str]) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of the user's own classes that have one of these names."""
    for name in sorted(names):
        for base in kind.__mro__:
            if name in vars(base) and is_own(str(base.__module__)):
                one = _plain(vars(base)[name])
                if not isinstance(one, types.MemberDescriptorType | types.GetSetDescriptorType):
                    yield name, one


def _plain(attribute: Any) -> Any:
    """Return the function inside an attribute of a class."""
    if isinstance(attribute, staticmethod | classmethod):
        attribute = attribute.__func__
    if isinstance(attribute, property):
        attribute = attribute.fget
    if isinstance(attribute, functools.cached_property):
        attribute = attribute.func
    return getattr(attribute, "__wrapped__", attribute) if callable(attribute) else attribute


@functools.lru_cache(maxsize=4_096)
def _reader(code: types.CodeType) -> _Reader:
    return _Reader(frozenset(names_in(code)), frozenset(_used_whole(code)))


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


def _texts_in(code: types.CodeType) -> Iterator[str]:
    for one in code.co_consts:
        if isinstance(one, str):
            yield one
        elif isinstance(one, types.CodeType):
            yield from _texts_in(one)


def _modules_read(names: frozenset[str] | set[str], known: Mapping[str, Any]) -> list[types.ModuleType]:
    """Return the modules that code with these names reaches, also through other modules."""
    waiting = [known.get(name, sys.modules.get(name)) for name in sorted(names)]
    found: dict[int, types.ModuleType] = {}
    while waiting:
        module = waiting.pop()
        if isinstance(module, types.ModuleType) and id(module) not in found:
            found[id(module)] = module
            waiting += [vars(module)[name] for name in sorted(names & vars(module).keys())]
    return list(found.values())


def _relatives(function: types.FunctionType) -> Mapping[str, types.ModuleType]:
    """Return the modules that a function may import by a relative name."""
    package = function.__globals__.get("__package__")
    if not package:
        return {}
    places = ((name, sys.modules.get(f"{package}.{name}")) for name in _reader(function.__code__).names)
    return {name: module for name, module in places if module is not None}


def _digest_of_pickle(value: Any) -> str:
    return hashlib.sha256(pickle.dumps(value, protocol=5)).hexdigest()


_numbers: dict[int, tuple[weakref.ref[Any], int]] = {}
_pinned: dict[int, tuple[Any, int]] = {}
"""The last ones of the objects whose end cannot be noticed; while they live, no other object has their place."""
_MOST_PINNED = 64
_counter = itertools.count()
on_end: list[Callable[[int], None]] = []
"""Called with the number of an object that has ended."""


def _number(value: Any) -> int:
    """Return a number that no other object has or will have."""
    place = id(value)
    if place in _pinned:
        return _pinned[place][1]
    known = _numbers.get(place)
    if known is not None and known[0]() is value:
        return known[1]
    number = next(_counter)

    def end(_: object) -> None:
        if (now := _numbers.get(place)) is not None and now[1] == number:
            del _numbers[place]
        end_of(None, number)

    try:
        _numbers[place] = (weakref.ref(value, end), number)
    except TypeError:
        _pinned[place] = (value, number)
        if len(_pinned) > _MOST_PINNED:
            end_of(*_pinned.pop(next(iter(_pinned))))
    return number


def end_of(_value: Any, number: int) -> None:
    """Tell that an object has ended, or is not known any more."""
    for function in on_end:
        function(number)
