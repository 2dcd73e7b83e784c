"""The modules of the user's own that are loaded here, and how each travels with a trainable.

By value: with all its globals. By execution: a module with a global that the trainable uses and that cannot be
pickled, such as a lock, or whose classes register their subclasses, is executed from its text by each worker, and then
given the values that its other globals have here. What cannot be pickled and is not used stays here. A module that is
installed does not travel: workers have it.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import tokenize
import types
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from operator import itemgetter
from types import ModuleType
from typing import Any

import cloudpickle

from asyncsearch.launch.imported_submodules import found_by_name
from asyncsearch.launch.installed_modules import folders_of, is_installed
from asyncsearch.runner.process.sent_code import ModulePlace, ModuleSource

_LOCK = threading.Lock()
SKIPPED = frozenset({"__builtins__", "__loader__", "__spec__", "__cached__", "__path__"})
"""Globals that a worker makes itself."""


class OwnModules:
    """The modules of the user's own, by full name, and how they are sent."""

    def __init__(self, loaded: Mapping[str, types.ModuleType]) -> None:
        """Begin with nothing to send.

        Args:
            loaded: name in ``sys.modules`` -> module of the user's own.
        """
        plain = {name: module for name, module in loaded.items() if module.__name__ == name}
        self.named = {name: module for name, module in plain.items() if type(module) is types.ModuleType}
        self.odd = {name: module for name, module in plain.items() if name not in self.named}
        """Modules of a class of their own, which are executed."""
        self._aliases = {name: module.__name__ for name, module in loaded.items() if module.__name__ != name}
        self._packages = {
            file: package_of(module)
            for module in plain.values()
            if isinstance(file := getattr(module, "__file__", None), str)
        }
        self.sent: dict[str, dict[str, str]] = {}
        """Full name -> {global that is left out: why} of the modules to send."""
        self.executed: dict[str, ModuleSource | None] = {}
        """Full name -> source of those that are executed. None if it has none, so that a worker imports it."""
        self.reasons: dict[str, str] = {}
        """Full name -> the value because of which a module is executed."""
        self._imports: dict[int, tuple[types.CodeType, set[str]]] = {}
        """Answers of ``imported_by``: the same functions are pickled several times. The codes keep their numbers."""

    def loaded(self) -> list[str]:
        """Return the full names of all of them."""
        return [*self.named, *self.odd]

    def goes_by_name(self, name: str) -> bool:
        """Return whether members of a module are written by their names."""
        return name in self.executed

    def left_out(self, name: str) -> dict[str, str]:
        """Return why globals of a module are left out, by name."""
        return self.sent.get(name, {})

    def by_value(self) -> list[types.ModuleType]:
        """Return the modules that are sent by value, packages before their modules."""
        return [self.named[name] for name in sorted(self.sent) if name not in self.executed]

    def sources(self) -> dict[str, ModuleSource]:
        """Return the modules that are executed and have a source."""
        return {name: source for name, source in sorted(self.executed.items()) if source is not None}

    def aliases(self) -> dict[str, str]:
        """Return further name -> full name of the modules to send."""
        return {alias: name for alias, name in self._aliases.items() if name in self.sent}

    def get(self, name: str) -> types.ModuleType | None:
        """Return a loaded module of the user's own by its full name."""
        return self.named.get(name) or self.odd.get(name)

    def place_of_mark(self, mark: object) -> tuple[str, str] | None:
        """Return the module and the name of a global that is compared by identity, as ``MISSING = object()`` is."""
        for name in self.loaded():
            for key, value in own_members(self.named.get(name) or self.odd[name]):
                if value is mark:
                    return name, key
        return None

    def module_of_function(self, function: types.FunctionType) -> types.ModuleType | None:
        """Return the own module whose globals a function reads."""
        module = self.get(str(function.__globals__.get("__name__")))
        return module if module is not None and vars(module) is function.__globals__ else None

    def module_of_class(self, kind: type) -> types.ModuleType | None:
        """Return the own module in which a class was defined."""
        return self.get(str(kind.__module__))

    def has_member(self, module: types.ModuleType, member: Any) -> bool:
        """Return whether a function or class is found in a module by its name."""
        found: Any = module
        for part in member.__qualname__.split("."):
            found = vars(found).get(part) if hasattr(found, "__dict__") else None
            found = found.__func__ if isinstance(found, staticmethod | classmethod) else found
        return found is member

    def imported_by(self, code: types.CodeType) -> set[str]:
        """Return the own modules that a code may import, by a statement or by a name in a text."""
        if id(code) not in self._imports:
            self._imports[id(code)] = code, self._importable_by(code)
        return self._imports[id(code)][1]

    def _importable_by(self, code: types.CodeType) -> set[str]:
        packages = list(_upwards(self._packages.get(code.co_filename, "")))
        texts = {text for text in code.co_consts if isinstance(text, str)}
        found = set()
        for name in {*code.co_names, *texts}:
            if self.get(name) is not None:
                found.add(name)
            for package in packages:
                if self.get(place := f"{package}.{name}" if name else package) is not None:
                    found.add(place)
        for start in texts:
            if start.endswith(".") and start != "." and " " not in start:  # docstrings end so, too
                found |= {name for name in self.loaded() if name.startswith(start)}
        return found | self.reached_in(found, code.co_names)

    def reached_in(self, packages: Collection[str], names: Collection[str]) -> set[str]:
        """Return the modules that attributes of packages may be, as in ``package.module.function()``."""
        found: set[str] = set()
        waiting = list(packages)
        while waiting:
            package = waiting.pop()
            inside = {place for name in names if self.get(place := f"{package}.{name}") is not None} - found
            found |= inside
            waiting += inside
        return found

    def with_packages(self, names: Collection[str]) -> set[str]:
        """Return names of modules with those of the packages that they are in."""
        return {place for name in names for place in _upwards(name) if self.get(place) is not None}


def own_members(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the globals of a module that travel with it, without the modules that are in it if it is a package.

    Python has set those, whoever imported them: with them a package would bring all that the driver has loaded of it.
    """
    for name, value in dict(vars(module)).items():
        if name not in SKIPPED and not is_submodule(value, module, name):
            yield name, value


def submodules(module: types.ModuleType) -> Iterator[tuple[str, types.ModuleType]]:
    """Yield the loaded modules that are in a package, by their names in it."""
    for name, value in dict(vars(module)).items():
        if is_submodule(value, module, name):
            yield name, value


def is_submodule(value: Any, package: types.ModuleType, name: str) -> bool:
    """Return whether a global of a package is the module of that name in it."""
    return isinstance(value, types.ModuleType) and value.__name__ == f"{package.__name__}.{name}"


def place_of(module: types.ModuleType) -> ModulePlace:
    """Return where a module was loaded from."""
    file = getattr(module, "__file__", None)
    path = tuple(folders_of(module)) if hasattr(module, "__path__") else None
    return ModulePlace(file if isinstance(file, str) else None, path)


def source_of(module: types.ModuleType) -> ModuleSource | None:
    """Return a module's source as it is now. None if it cannot be had."""
    loader = getattr(module, "__loader__", None)
    text = None
    with contextlib.suppress(Exception):  # a loader of the user's own may raise anything
        text = loader.get_source(module.__name__)  # type: ignore[union-attr]
    file = getattr(module, "__file__", None)
    if text is None and isinstance(file, str) and file.endswith(".py"):  # as the loader of pytest has it
        with contextlib.suppress(Exception), tokenize.open(file) as opened:
            text = opened.read()
    return ModuleSource(place_of(module), text) if isinstance(text, str) else None


def package_of(module: types.ModuleType) -> str:
    """Return the package that relative imports in a module begin with."""
    return module.__name__ if hasattr(module, "__path__") else module.__name__.rpartition(".")[0]


def is_inside(member: Any, root: Any) -> bool:
    """Return whether a function or class is another one, or defined in it."""
    if member is root:
        return True
    name = getattr(root, "__qualname__", None)
    return name is not None and f"{member.__qualname__}".startswith(f"{name}.")


def loaded_modules() -> dict[str, types.ModuleType]:
    """Return name -> loaded module; libraries also put objects there that are not modules."""
    copied = sys.modules.copy()  # in one step, since other threads may import meanwhile
    loaded: list[tuple[str, Any]] = sorted(copied.items(), key=itemgetter(0))
    return {name: module for name, module in loaded if isinstance(module, types.ModuleType)}


def _upwards(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition(".")[0]


@contextmanager
def sent_as_registered() -> Iterator[None]:
    """Keep cloudpickle's registry as users left it, although other threads may pack.

    The registry is global in the process.
    """
    with _LOCK:
        yield


@contextmanager
def sent_by_value() -> Iterator[OwnModules]:
    """Make cloudpickle send modules that are not installed by value, and yield them."""
    with _LOCK, found_by_name():
        before = cloudpickle.list_registry_pickle_by_value()
        loaded = loaded_modules()
        mine = {name: module for name, module in loaded.items() if name in before or not is_installed(module)}
        registered: list[ModuleType] = []
        try:
            for name, module in mine.items():
                # An alias is sent with its module.
                if module.__name__ == name and name not in before:
                    cloudpickle.register_pickle_by_value(module)
                    registered.append(module)
            yield OwnModules(mine)
        finally:
            for module in registered:
                cloudpickle.unregister_pickle_by_value(module)
