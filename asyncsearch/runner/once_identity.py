"""The identity of a call of ``trial.once``: a digest of the function's code, of the values that it captures, and of the
globals, helpers and attributes that it reads.

Of an object of the user's own, the attributes that the code reads count: a trainer that reads ``self.path`` while it
loads gets what another trainer with this path has loaded. A value without comparable content, such as a connection,
counts as the object that it is.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import pickle
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from asyncsearch.runner.code_reads import (
    CodeReads,
    is_own_object,
    modules_read,
    names_read,
    of_class,
    reads_of,
    relatives,
    texts_in,
)
from asyncsearch.trainable import TrialContext
from asyncsearch.values.function_code import (
    ContentWalk,
    captured_by,
    digest_of,
    is_own,
    names_in,
    slots_of,
)

_MANY_ITEMS = 1_000
_MOST_PINNED = 64
_ALIKE = ("_thread", "threading", "logging")
"""Modules of values that carry no data: locks and loggers."""
_OF_TRIAL = frozenset({"params", "seed", "max_resource"})
_BY_TEXT = frozenset({"getattr", "globals", "vars", "__dict__", "import_module", "environ", "getenv"})
"""Names that read variables, modules and the environment by texts."""


class CallIdentity(NamedTuple):
    """All that a call depends on."""

    head: str
    """The code of the function and its arguments."""
    digest: str
    """All that it depends on."""
    objects: tuple[int, ...]
    """Numbers of the objects that count as themselves."""
    kinds: tuple[str, ...]
    """Names of their types."""


class ObjectNumbers:
    """Numbers for objects that count as themselves: no two objects of a process ever have the same one."""

    def __init__(self, ended: Callable[[int], None]) -> None:
        """Begin; ``ended`` is called with the number of an object that has ended."""
        self._ended = ended
        self._counter = itertools.count()
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._pinned: dict[int, tuple[Any, int]] = {}
        """The last ones of the objects whose end cannot be noticed; while they live, no other has their place."""

    def number(self, value: Any) -> int:
        """Return the number of an object."""
        place = id(value)
        if place in self._pinned:
            return self._pinned[place][1]
        known = self._known.get(place)
        if known is not None and known[0]() is value:
            return known[1]
        number = next(self._counter)

        def end(_: object) -> None:
            # By now another object may have its place, and a number of its own.
            if (now := self._known.get(place)) is not None and now[1] == number:
                del self._known[place]
            self._ended(number)

        try:
            self._known[place] = (weakref.ref(value, end), number)
        except TypeError:
            self._pinned[place] = (value, number)
            if len(self._pinned) > _MOST_PINNED:
                self._ended(self._pinned.pop(next(iter(self._pinned)))[1])
        return number


def identity_of(function: Callable[..., Any], args: tuple[Any, ...], numbers: ObjectNumbers) -> CallIdentity:
    """Return the identity of ``function(*args)``."""
    inner = function
    given: tuple[tuple[Any, ...], dict[str, Any]] = (args, {})
    while isinstance(inner, functools.partial):
        given = ((*inner.args, *given[0]), {**inner.keywords, **given[1]})
        inner = inner.func
    walk = _OnceWalk(numbers)
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


class _OnceWalk(ContentWalk):
    """Describes a function with all that it depends on."""

    def __init__(self, numbers: ObjectNumbers) -> None:
        super().__init__(with_data=True)
        self._numbers = numbers
        self.objects: dict[int, str] = {}
        """Number -> type of each object that counts as itself."""
        self._reader = CodeReads(frozenset(), frozenset())
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
        """Describe a function: of an object of the user's own, the attributes that its method reads."""
        if not isinstance(function, type | types.FunctionType | types.MethodType) and is_own_object(function):
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
        if not is_own_object(owner) or not isinstance(function, types.FunctionType):
            return self.describe(owner)
        return self._part(owner, frozenset({function.__name__, *names_in(function.__code__)}), function)

    def _object(self, value: Any) -> str:
        if isinstance(value, TrialContext):
            return self._as_itself(value)
        if type(value).__module__ in _ALIKE:
            return f"{type(value).__qualname__} {getattr(value, 'name', '')}"
        if is_own_object(value):
            return super()._object(value)
        if hasattr(value, "__wrapped__") or (hasattr(value, "__qualname__") and not hasattr(value, "__dict__")):
            return super()._object(value)
        try:
            return f"{self._name(type(value))} {_digest_of_pickle(value)}"
        except Exception:  # of a connection, a generator, a file
            return self._as_itself(value)

    def _as_itself(self, value: Any) -> str:
        number = self._numbers.number(value)
        self.objects[number] = type(value).__qualname__
        return f"object {number}"

    def _function(self, function: types.FunctionType) -> str:
        before, self._reader = self._reader, reads_of(function.__code__)
        try:
            self._globals(function.__code__, {**relatives(function), **function.__globals__})
            cells = zip(function.__code__.co_freevars, captured_by(function), strict=True)
            captured = [self._read(name, value) for name, value in cells]
            rest = (function.__code__, function.__defaults__, function.__kwdefaults__, vars(function))
            return f"{captured} {self._all(rest)}"
        finally:
            self._reader = before

    def _globals(self, code: types.CodeType, known: Mapping[str, Any]) -> None:
        """Collect the values of the names in a function's code, in modules inside modules, and its environment."""
        super()._globals(code, known)
        texts = set(texts_in(code)) if self._reader.names & _BY_TEXT else set[str]()
        for name in sorted(texts & known.keys()):
            if not isinstance(known[name], types.ModuleType):
                self._global(name, known[name])
        names = self._reader.names | texts
        for module in modules_read(names, known):
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
        return self._part(value, self._reader.names) if is_own_object(value) else self.describe(value)

    def _trial(self, trial: TrialContext, names: frozenset[str]) -> str:
        if not names & {name for name in dir(TrialContext) if not name.startswith("_")} - {"once"} <= _OF_TRIAL:
            return self._as_itself(trial)
        return self._all((dict(trial.params), trial.seed, trial.max_resource))

    def _part(self, value: Any, names: frozenset[str], method: types.FunctionType | None = None) -> str:
        """Describe an object as far as code with these names reads it."""
        found = names_read(type(value), names, method)
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
        for name, one in of_class(type(value), found):
            texts.append(
                f"class {name} {self._function(one) if isinstance(one, types.FunctionType) else self.describe(one)}"
            )
        return digest_of(texts)


def _digest_of_pickle(value: Any) -> str:
    return hashlib.sha256(pickle.dumps(value, protocol=5)).hexdigest()
