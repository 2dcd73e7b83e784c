"""The holdings of a process that a fork would break: threads, descriptors, processes and temporary folders."""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from asyncsearch.files.trees import remove_tree


class ProcessHoldings:
    """The holdings that a fork would break; what is temporary goes with the first fork that ends, for all others."""

    def __init__(self) -> None:
        self._threads = threading.active_count()
        self._tasks = tasks()
        self._files = _descriptors()
        self._children = _children_of(self._tasks)
        self._temporary = {path for path in _MADE if os.path.lexists(path)}

    def beyond(self, before: ProcessHoldings) -> str:
        """Return, in words, what is there that was not. Empty if nothing is."""
        if self._threads > before._threads:
            return f"it starts the thread {threading.enumerate()[-1].name!r}"
        new = [target for number, target in self._files.items() if before._files.get(number) != target]
        if new:
            return f"it keeps {new[0]} open"
        if not self._children <= before._children:
            return "it starts a process"
        if not self._temporary <= before._temporary:
            return "it makes a temporary file or folder"
        if len(self._tasks) > len(before._tasks) and _tasks_after_fork() > len(before._tasks):
            return "it starts a thread"
        return ""


def _tasks_after_fork() -> int:
    """Return the number of threads that are left where the process forks: some libraries end theirs before."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    left = len(tasks())
    os.waitpid(pid, 0)
    return left


_FORK_SAFE = frozenset({"jemalloc_bg_thd"})
"""Names of threads whose libraries begin them anew in a fork: that of pyarrow's memory, which pandas brings."""


def tasks() -> list[str]:
    """Return the threads of this process that a fork leaves behind, as the system sees them."""
    return [task for task in os.listdir("/proc/self/task") if _name_of(task) not in _FORK_SAFE]


def _name_of(task: str) -> str:
    try:
        return Path(f"/proc/self/task/{task}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # it has ended
        return ""


_MADE: list[str] = []
"""Temporary files and folders of this process."""


@contextlib.contextmanager
def temporary_files_noted() -> Iterator[None]:
    """Note which temporary files and folders are made."""
    with contextlib.ExitStack() as stack:
        for name in ("mkdtemp", "_mkstemp_inner"):  # the second makes all files
            if (make := getattr(tempfile, name, None)) is not None:
                setattr(tempfile, name, _noting(make))
                stack.callback(setattr, tempfile, name, make)
        yield


def remove_temporary_files() -> None:
    """Remove those that were noted, of a process that will end without doing so."""
    for path in _MADE:
        remove_tree(path)


def _noting(make: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make)
    def noting(*arguments: Any, **named: Any) -> Any:
        made = make(*arguments, **named)
        _MADE.append(os.fsdecode(made[1] if isinstance(made, tuple) else made))
        return made

    return noting


def _children_of(threads: Sequence[str]) -> set[str]:
    """Return the processes that threads of this one have started; each has a list of its own."""
    found = set[str]()
    for task in threads:
        with contextlib.suppress(OSError):  # it has ended, or the kernel has no such list
            found.update(Path(f"/proc/self/task/{task}/children").read_text().split())
    return found


def _descriptors() -> dict[str, str]:
    """Return the open descriptors, each with what it is of."""
    found = {}
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of the list itself
            found[number] = os.readlink(f"/proc/self/fd/{number}")
    return found
