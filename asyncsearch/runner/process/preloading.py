"""What a runner has imported, imported beforehand in a process from which the next ones are forked.

Only modules of installed packages: the user's own may do anything, and come with the trainable. They are imported in
the order, and with the variables, in which a runner had imported them, by a thread of the lowest priority, which ends.
A module is left out if its import leaves something that a fork breaks: a thread, unless it ends before a fork as those
of OpenBLAS do, or an open descriptor, as CUDA does that was begun.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
import threading
import types
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from asyncsearch.runner.process.kernel_files import rooms, status

_INSTALLED_FOLDERS = frozenset({"site-packages", "dist-packages"})
_LOWEST = 19
"""The nice value of the lowest priority, which a process without rights cannot leave again; a thread ends."""
_ENDING_S = 10.0
"""Most time for which a thread that has ended is still seen."""
_ROOM = 10
"""How many times the memory of a runner must be free: each worker of a machine has a process with its modules."""


class Preload(msgspec.Struct, frozen=True):
    """What to import, and with which variables."""

    environment: dict[str, str]
    modules: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """Modules that are not to be imported, with those below them."""


class Preloaded(msgspec.Struct, frozen=True):
    """What has come of it."""

    spoiled_by: str = ""
    """The module after whose import the process cannot be forked any more. Empty if it can be."""
    reason: str = ""


WANTED = msgspec.json.Decoder(Preload)
ANSWER = msgspec.json.Decoder(Preloaded)


def has_room() -> bool:
    """Return whether a second process may hold what this one does, and another one beside each other worker."""
    held = status().get("VmRSS", 0)
    return all(_ROOM * held <= room for room, _ in rooms())


def installed_modules() -> tuple[str, ...]:
    """Return the modules of installed packages that this process has imported, in the order in which it began them."""
    return tuple(name for name, module in sys.modules.copy().items() if _is_installed(name, module))


def changed_variables(before: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that were set since, on which an import may depend, as KERAS_BACKEND."""
    return {name: value for name, value in os.environ.items() if before.get(name) != value and _is_text(name + value)}


def take_over(environment: Mapping[str, str]) -> None:
    """Set the variables, and the import path, of a runner."""
    os.environ.update(environment)
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in paths if path and path not in sys.path]


def preload(wanted: Preload) -> Preloaded:
    """Import modules, in a process with one thread, which has one afterwards, unless the answer says otherwise."""
    take_over(wanted.environment)
    sys.modules["__main__"] = types.ModuleType("__main__")  # as in a runner: some ask it whether they are in a script
    importer = _Importer(wanted.modules, wanted.left_out)
    _set_session_priority(_LOWEST)
    thread = threading.Thread(target=importer.run)
    thread.start()
    thread.join()
    _set_session_priority(0)
    importer.await_end()
    gc.collect()
    gc.freeze()  # else the first collection of each runner would look through all of it, and copy its pages
    return importer.found


class _Importer:
    """Imports modules in a thread, up to the first one after which the process could not be forked."""

    def __init__(self, names: Sequence[str], left_out: Collection[str]) -> None:
        self._names, self._left_out = names, tuple(left_out)
        self._pid_of_thread = 0
        self.found = Preloaded()

    def run(self) -> None:
        self._pid_of_thread = threading.get_native_id()
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._pid_of_thread, _LOWEST)
        before = ProcessHoldings()
        for name in self._names:
            if name in sys.modules or self._is_left_out(name):
                continue
            # Whatever it raises: a runner imports it itself, and says what is wrong.
            with contextlib.suppress(BaseException):
                importlib.import_module(name)
            if reason := ProcessHoldings().beyond(before):
                self.found = Preloaded(name, reason)
                return

    def await_end(self) -> None:
        """Wait until the system has ended the thread, too: a fork beside it is one of a process with two threads."""
        gone = threading.Event()
        for _ in range(int(1000 * _ENDING_S)):
            if str(self._pid_of_thread) not in _tasks():
                return
            gone.wait(0.001)

    def _is_left_out(self, name: str) -> bool:
        return any(name == one or name.startswith(f"{one}.") for one in self._left_out)


class ProcessHoldings:
    """What a fork would break of a process: its threads and open descriptors."""

    def __init__(self) -> None:
        self._threads = threading.active_count()
        self._tasks = _tasks()
        self._files = _descriptors()

    def beyond(self, before: ProcessHoldings) -> str:
        """Return, in words, what is there that was not. Empty if nothing is."""
        if self._threads > before._threads:
            return f"it starts the thread {threading.enumerate()[-1].name!r}"
        new = [target for number, target in self._files.items() if before._files.get(number) != target]
        if new:
            return f"it keeps {new[0]} open"
        if len(self._tasks) > len(before._tasks) and _tasks_after_fork() > len(before._tasks):
            return "it starts a thread"
        return ""


def _tasks_after_fork() -> int:
    """Return the number of threads that are left where the process forks: some libraries end theirs before."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    left = len(_tasks())
    os.waitpid(pid, 0)
    return left


def _tasks() -> list[str]:
    return os.listdir("/proc/self/task")


def _descriptors() -> dict[str, str]:
    """Return the open descriptors, each with what it is of."""
    found = {}
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of the list itself
            found[number] = os.readlink(f"/proc/self/fd/{number}")
    return found


def _set_session_priority(nice: int) -> None:
    """Set the priority of the session, which counts before that of a thread where the kernel groups by sessions."""
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(nice))


def _is_installed(name: str, module: object) -> bool:
    # By ``vars``: a module that is loaded at its first use would be loaded by the question.
    spec = vars(module).get("__spec__") if isinstance(module, types.ModuleType) else None
    if spec is None or spec.name != name or not isinstance(spec.origin, str):
        return False
    return name.startswith("asyncsearch.") or not _INSTALLED_FOLDERS.isdisjoint(spec.origin.split(os.sep))


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # it is no text, which no message can hold
        return False
    return True
