"""The user's own code in the process that unpickles a trainable: its modules, its lines, its script and command line.

In a process that exists for trials, a module that was sent is the module of its name: an ``import`` there, a pickle
that names one of its classes and the functions that were sent find the same objects, with the values of the time at
which it was sent. Elsewhere (a notebook that trains inline, or that reads a stored study) it is a private copy,
because the process has modules of its own.

Tracebacks of a worker show the lines that were sent: a worker on another machine has no such file, no worker has the
cells of a notebook, and the file of a study that is resumed may have been edited since.

A function of a script or a notebook is sent by value, with the globals that it uses; its classes name ``__main__`` as
their module. Plain ``pickle`` (joblib and ``torch.save`` use it) looks a class up there, and in this process
``__main__`` is the runner. So the globals of the script are put into it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import linecache
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from asyncsearch.runner.code_reads import function_in
from asyncsearch.trainable import Pickled


class ModulePlace(NamedTuple):
    """The place from which a module was loaded, on the machine that sent it."""

    file: str | None
    path: tuple[str, ...] | None
    """Folders of a package. None if it is a plain module."""


class ModuleSource(NamedTuple):
    """A module that is executed where it arrives."""

    place: ModulePlace
    text: str


class SentCode(importlib.abc.MetaPathFinder):
    """The code that was sent to this process; on ``sys.meta_path`` it finds the modules whose text was sent."""

    def __init__(self) -> None:
        self.is_for_trials = False
        """Whether this process takes over the state of the process that sent the trainable."""
        self.modules: dict[str, ModuleSource] = {}
        self.files: dict[str, str] = {}
        """File -> its text, for tracebacks."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        source = self.modules.get(name)
        if source is None:
            return None
        place = source.place
        loader = _SentLoader(name, source)
        spec = importlib.util.spec_from_loader(name, loader, origin=place.file, is_package=place.path is not None)
        if spec is not None:
            spec.has_location = place.file is not None
            if place.path is not None:
                spec.submodule_search_locations = list(place.path)
        return spec


class _SentLoader(importlib.abc.InspectLoader):
    def __init__(self, name: str, source: ModuleSource) -> None:
        self._name, self._source = name, source

    def is_package(self, fullname: str) -> bool:
        return self._source.place.path is not None

    def get_source(self, fullname: str) -> str:
        return self._source.text

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self._source.text, self._source.place.file or "<sent>", "exec", dont_inherit=True)
        return code


_sent = SentCode()


def take_modules_over() -> None:
    """Let this process take over the modules that it unpickles; called once, before the trainable is unpickled."""
    _sent.is_for_trials = True


def make_module(name: str, place: ModulePlace, left_out: Mapping[str, str]) -> ModuleType:
    """Return an empty module, which ``fill_module`` fills.

    Args:
        name: its full name.
        place: where it was loaded from.
        left_out: global name -> why it was not sent, for who asks for it nevertheless.
    """
    module = ModuleType(name)
    path = None if place.path is None else list(place.path)
    loader = None if place.file is None else importlib.machinery.SourceFileLoader(name, place.file)
    spec = importlib.machinery.ModuleSpec(name, loader, origin=place.file, is_package=path is not None)
    if path is not None:
        spec.submodule_search_locations = path
        module.__path__ = path
    module.__spec__, module.__loader__ = spec, loader
    spec.has_location = place.file is not None
    if left_out:
        vars(module)["__getattr__"] = _Missing(name, dict(left_out))
    if _sent.is_for_trials:
        sys.modules[name] = module
    return module


def fill_module(module: ModuleType, content: dict[str, Any]) -> None:
    """Give a module its globals."""
    vars(module).update(content)


def namespace(module: ModuleType) -> dict[str, Any]:
    """Return the globals of a module, which functions of it read."""
    return vars(module)


class _Missing:
    """The ``__getattr__`` of a module without all its globals."""

    def __init__(self, module: str, reasons: dict[str, str]) -> None:
        self._module, self._reasons = module, reasons

    def __call__(self, name: str) -> Any:
        if name in self._reasons:
            raise AttributeError(f"{self._module}.{name} was not sent to this worker: {self._reasons[name]}", name=name)
        raise AttributeError(f"module {self._module!r} has no attribute {name!r}", name=name)


def execute_modules(sources: Mapping[str, ModuleSource]) -> None:
    """Import modules from the text that was sent: those that cannot be sent by value."""
    _sent.modules.update(sources)
    if not _sent.is_for_trials:
        if _sent not in sys.meta_path:
            sys.meta_path.append(_sent)  # a module of this process takes precedence
        return
    sys.meta_path.insert(0, _sent)  # before the path: it may have another version of the module
    for name in sources:
        importlib.import_module(name)
    for name, module in sys.modules.copy().items():
        package, _, last = name.rpartition(".")
        if package in sources and not hasattr(sys.modules[package], last):  # it came by value, before its package
            setattr(sys.modules[package], last, module)


def set_state(state: Mapping[str, Mapping[str, Any]]) -> None:
    """Give executed modules the values that they had: full name -> {path of a global or a class attribute: value}."""
    if not _sent.is_for_trials:
        return
    for name, values in state.items():
        for path, value in values.items():
            _set(sys.modules[name], path.split("."), value)


def _set(owner: Any, path: Sequence[str], value: Any) -> None:
    for name in path[:-1]:
        owner = getattr(owner, name, None)
    if owner is not None:
        with contextlib.suppress(AttributeError, TypeError):  # a class of the user's own may admit no changes
            setattr(owner, path[-1], value)


def alias_modules(aliases: Mapping[str, str]) -> None:
    """Know modules by the further names that the sender knew them by: alias -> full name."""
    if _sent.is_for_trials:
        sys.modules.update({alias: sys.modules[name] for alias, name in aliases.items() if name in sys.modules})


def last_of(*steps: Any) -> Any:
    """Return the value that is unpickled last, after the modules that it needs."""
    return steps[-1]


class WithSources:
    """A pickled trainable, the text of the files that its code is from, and the script's command line.

    Unpickled, it is the trainable.
    """

    def __init__(self, trainable: bytes, files: Mapping[str, str], arguments: Sequence[str]) -> None:
        self._trainable = trainable
        self._files = dict(files)
        self._arguments = list(arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        # A module of the user's own may read the command line while it is unpickled.
        return _restored, (_CommandLine(self._arguments), self._files, Pickled(self._trainable))


class _CommandLine:
    """The arguments of the script, which become those of the process that unpickles them for trials."""

    def __init__(self, arguments: list[str]) -> None:
        self._arguments = arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return _take_over, (self._arguments,)


def _take_over(arguments: list[str]) -> None:
    if _sent.is_for_trials:
        sys.argv[:] = arguments


def _restored(first: Any, files: dict[str, str], trainable: Any = None) -> Any:
    """Return the trainable, which earlier versions pickled first."""
    _sent.files.update(files)
    return first if trainable is None else trainable


def show_received_sources() -> None:
    """Have tracebacks of this process show the lines that were unpickled; in a runner alone, which has no other code.

    An entry without a time is never compared with the disk (``linecache.checkcache``).
    """
    for file, text in _sent.files.items():
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)


_MAX_ITEMS = 100
"""Maximum number of examined items of a container."""


def adopt(trainable: object) -> None:
    """Put the globals, classes and functions of a trainable's script into this process's ``__main__``."""
    module = sys.modules["__main__"]
    adopted: set[str] = set()
    seen: dict[int, Any] = {}
    waiting: list[Any] = [trainable]
    while waiting:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen[id(found)] = found
        for name, value in _named(found):
            if name not in adopted:
                adopted.add(name)
                setattr(module, name, value)
        waiting.extend(_within(found))


def _named(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and values for the module: a definition of the script, and globals that a function of it reads."""
    if isinstance(value, type | FunctionType | functools._lru_cache_wrapper):
        if _is_of_script(value) and value.__qualname__ == value.__name__:
            yield value.__name__, value
        if isinstance(value, FunctionType) and _is_of_script(value):
            yield from ((name, one) for name, one in value.__globals__.items() if not name.startswith("__"))


def _is_of_script(value: Any) -> bool:
    return bool(value.__module__ == "__main__")


def _within(value: Any) -> Iterator[Any]:
    """Yield values that may be, or lead to, a definition of the script."""
    match value:
        case FunctionType():
            if value.__globals__.get("__name__") == "__main__":
                yield from value.__globals__.values()
            yield from (cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell))
            if hasattr(value, "__wrapped__"):
                yield value.__wrapped__
        case functools._lru_cache_wrapper():
            yield value.__wrapped__
        case MethodType():
            yield from (value.__func__, value.__self__)
        case functools.partial():
            yield from (value.func, value.args, value.keywords)
        case type():
            if _is_of_script(value):
                yield from value.__bases__
                yield from map(function_in, vars(value).values())
        case dict():
            yield from itertools.islice(value.values(), _MAX_ITEMS)
        case list() | tuple() | set() | frozenset():
            yield from itertools.islice(value, _MAX_ITEMS)
        case _:
            if _is_of_script(type(value)):
                yield from (type(value), getattr(value, "__dict__", {}))


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
