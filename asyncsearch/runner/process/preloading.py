"""The modules that a runner has imported, imported beforehand in a process from which the next ones are forked.

Only modules of installed packages: the user's own may do anything, and come with the trainable. They are imported in
the order, and with the variables, in which a runner had imported them, by a thread of the lowest priority, which ends;
what they have set for this thread alone is handed to the main one, and the variables of a trial are taken back.
A module is left out if its import leaves something that a fork breaks: a thread, unless it ends before a fork as those
of OpenBLAS do, an open descriptor, as CUDA does that was begun, or a process or a temporary folder, which would end
with the first runner. So is one whose import fails here: what it had done by then would be done twice.
"""

from __future__ import annotations

import contextlib
import contextvars
import gc
import importlib
import os
import sys
import threading
import types
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from asyncsearch.arguments import is_unicode
from asyncsearch.runner.process.kernel_files import rooms, status
from asyncsearch.runner.process.process_holdings import (
    ProcessHoldings,
    remove_temporary_files,
    tasks,
    temporary_files_noted,
)
from asyncsearch.values import module_values

_INSTALLED_FOLDERS = frozenset({"site-packages", "dist-packages"})
_LOWEST = 19
"""The nice value of the lowest priority, which a process without rights cannot leave again; a thread ends."""
_ENDING_S = 10.0
"""Most time for which a thread that has ended is still seen."""
_ROOM = 10
"""How many times the memory of a runner must be free: each worker of a machine has a process with its modules."""


class Preload(msgspec.Struct, frozen=True):
    """The modules to import, and with which variables."""

    environment: dict[str, str]
    """Those of the runners."""
    modules: tuple[str, ...]
    variables: dict[str, str] = {}
    """Those that the first training has set: for the imports alone, since others of a trial are not the next one's."""
    left_out: tuple[str, ...] = ()
    """Modules that are not to be imported, with those below them."""
    nice: int = _LOWEST
    """The nice value of the imports."""


class Preloaded(msgspec.Struct, frozen=True):
    """The outcome of a preload."""

    spoiled_by: str = ""
    """The module after whose import the process cannot be forked any more. Empty if it can be."""
    reason: str = ""


WANTED = msgspec.json.Decoder(Preload)
ANSWER = msgspec.json.Decoder(Preloaded)


def lacking_room() -> str:
    """Return why no second process may hold what this one does, and another beside each other worker. Empty if so."""
    held = status().get("VmRSS", 0)
    for room, limited_by in rooms():
        if _ROOM * held > room:
            held_mb, room_mb = (round(size / 2**20) for size in (held, room))
            return f"{limited_by} has {room_mb} MB free, less than {_ROOM} times the {held_mb} MB of this process"
    return ""


def installed_modules() -> tuple[str, ...]:
    """Return the modules of installed packages that this process has imported, in the order in which it began them."""
    return tuple(name for name, module in sys.modules.copy().items() if _is_installed(name, module))


def changed_variables(before: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that were set since, on which an import may depend, as KERAS_BACKEND."""
    return {name: value for name, value in text_variables(os.environ).items() if before.get(name) != value}


def text_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a message can hold; others, bytes of another encoding, can only be inherited."""
    return {name: value for name, value in environment.items() if is_unicode(name + value)}


def take_over(environment: Mapping[str, str]) -> None:
    """Set the variables, and the import path, of a runner."""
    os.environ.update(environment)
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in paths if path and path not in sys.path]


def preload(wanted: Preload) -> Preloaded:
    """Import modules, in a process with one thread, which has one afterwards, unless the answer says otherwise."""
    take_over(wanted.environment)
    sys.modules["__main__"] = types.ModuleType("__main__")  # as in a runner: some ask it whether they are in a script
    importer = _Importer(wanted)
    _set_session_priority(wanted.nice)
    with _set_for_imports(wanted.variables), temporary_files_noted():
        thread = threading.Thread(target=importer.run)
        thread.start()
        thread.join()
    _set_session_priority(0)
    importer.await_end()
    if importer.found.spoiled_by:
        remove_temporary_files()
        return importer.found
    importer.thread_state.set_here()
    gc.collect()
    gc.freeze()  # else the first collection of each runner would look through all of it, and copy its pages
    return importer.found


class _NotingVariables(os._Environ[str]):
    """``os.environ`` that notes which variables are set, or would be if they were not."""

    noted: set[str]

    def __setitem__(self, key: str, value: str) -> None:
        self.noted.add(key)
        super().__setitem__(key, value)

    def setdefault(self, key: str, default: str) -> str:
        self.noted.add(key)
        return super().setdefault(key, default)


@contextlib.contextmanager
def _set_for_imports(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables, and afterwards set back those that nothing has set meanwhile."""
    before, kind, environment = dict(os.environ), type(os.environ), vars(os.environ)
    os.environ.update(variables)
    os.environ.__class__ = _NotingVariables
    noted = environment["noted"] = set()
    try:
        yield
    finally:
        os.environ.__class__ = kind
        del environment["noted"]
        for name in variables.keys() - noted:
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]


class ThreadState:
    """The values of the thread that made this alone: context variables, and values of ``threading.local``."""

    def __init__(self) -> None:
        self._context = contextvars.copy_context()
        found = [one for one in gc.get_objects() if issubclass(type(one), threading.local)]
        self._locals = [(one, dict(_values_here(one))) for one in found]

    def set_here(self) -> None:
        """Set the same for the calling thread."""
        for variable, value in self._context.items():
            variable.set(value)
        for one, values in self._locals:
            _values_here(one).update(values)


def _values_here(one: threading.local) -> dict[str, object]:
    """Return the values for this thread, which a class of its own may first make."""
    found: dict[str, object] = {}
    with contextlib.suppress(Exception):
        found = threading.local.__getattribute__(one, "__dict__")
    return found


class _Importer:
    """Imports modules in a thread, up to the first one after which the process could not be forked."""

    def __init__(self, wanted: Preload) -> None:
        self._names, self._left_out, self._nice = wanted.modules, wanted.left_out, wanted.nice
        self._pid_of_thread = 0
        self.found = Preloaded()
        self.thread_state = ThreadState()

    def run(self) -> None:
        self._pid_of_thread = threading.get_native_id()
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._pid_of_thread, self._nice)
        before = ProcessHoldings()
        for name in self._names:
            if name in sys.modules or self._is_left_out(name):
                continue
            outermost = _outermost_new(name)
            if reason := _failure_of_import(name):
                self.found = Preloaded(name, reason)
                return
            if reason := ProcessHoldings().beyond(before):
                self.found = Preloaded(outermost, reason)
                return
        self.thread_state = ThreadState()

    def await_end(self) -> None:
        """Wait until the system has ended the thread, too: a fork beside it is one of a process with two threads."""
        gone = threading.Event()
        for _ in range(int(1000 * _ENDING_S)):
            if str(self._pid_of_thread) not in tasks():
                return
            gone.wait(0.001)

    def _is_left_out(self, name: str) -> bool:
        return any(name == one or name.startswith(f"{one}.") for one in self._left_out)


def _outermost_new(name: str) -> str:
    """Return the package whose import that of a module begins with: the next module would only begin it again."""
    parts = name.split(".")
    packages = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return next(one for one in packages if one not in sys.modules)


def _failure_of_import(name: str) -> str:
    """Import a module, and return why it cannot be. Empty if it is imported, or if there is no such module."""
    try:
        importlib.import_module(name)
    except BaseException as error:
        is_absent = isinstance(error, ModuleNotFoundError) and error.name == name
        return "" if is_absent else f"it cannot be imported here: {type(error).__name__}: {error}"
    return ""


def _set_session_priority(nice: int) -> None:
    """Set the priority of the session, which counts before that of a thread where the kernel groups by sessions."""
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(nice))


def _is_installed(name: str, module: object) -> bool:
    spec = module_values(module).get("__spec__") if isinstance(module, types.ModuleType) else None
    if spec is None or spec.name != name or not isinstance(spec.origin, str):
        return False
    return name.startswith("asyncsearch.") or not _INSTALLED_FOLDERS.isdisjoint(spec.origin.split(os.sep))
