"""Calls that answer or fail within a time: hdfs-native waits for ever for a DataNode that has broken off a transfer.

A call runs in a thread of its own. One that never ends keeps its thread; who called goes on with an error.
"""

from __future__ import annotations

import atexit
import functools
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
ANSWER_S = 30.0
"""Longer than hdfs-native itself tries again: HDFS may take some 15 s to close a file."""
SYNC_S = 10.0
"""For an append that is synced: after the death of a server hdfs-native may wait for ever, and the journal can go on
in a new file."""
EXIT_S = 10.0
"""For the calls that still run when the process ends: a thread that came back from hdfs-native while the interpreter is
taken down would abort the process."""
_IDLE_S = 60.0


class Call:
    """A call in a thread of its own, and its outcome."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = threading.Event()

    def result_within(self, limit_s: float) -> Any:
        """Return the function's result, or raise its error.

        Raises:
            TimeoutError: it does not end in time.
        """
        if not self.done.wait(limit_s):
            raise TimeoutError("The call timed out")
        if self.error is not None:
            raise self.error
        return self.result


class _Threads:
    """Threads for calls; one that is idle is used again, since starting one takes longer than a call."""

    def __init__(self) -> None:
        self._idle: list[queue.SimpleQueue[Call]] = []
        self._running: set[Call] = set()

    def run(self, call: Call) -> None:
        self._running.add(call)
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = queue.SimpleQueue()
            threading.Thread(target=self._work, args=(inbox,), name="asyncsearch-hdfs", daemon=True).start()
        inbox.put(call)

    def _work(self, inbox: queue.SimpleQueue[Call]) -> None:
        while True:
            try:
                call = inbox.get(timeout=_IDLE_S)
            except queue.Empty:
                try:
                    self._idle.remove(inbox)
                except ValueError:  # it was taken at this moment: the call is on its way
                    continue
                return
            try:
                call.result = call.function(*call.arguments)
            except BaseException as error:
                call.error = error
            self._idle.append(inbox)
            self._running.discard(call)
            call.done.set()
            del call

    def drop(self) -> None:
        """Forget the threads in a forked child, which has none of them."""
        self._idle.clear()
        self._running.clear()

    def finish(self) -> None:
        """Wait for the calls that run."""
        deadline = time.monotonic() + EXIT_S
        for call in list(self._running):
            call.done.wait(max(0.0, deadline - time.monotonic()))


_threads = _Threads()
atexit.register(_threads.finish)


def begin(function: Callable[..., Any], *arguments: Any) -> Call:
    """Begin to call a function."""
    made = Call(function, arguments)
    _threads.run(made)
    return made


def call(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function and return what it returns.

    Raises:
        TimeoutError: it has not ended within ``ANSWER_S``.
    """
    result: T = begin(function, *arguments).result_within(ANSWER_S)
    return result


class Bounded:
    """An object of hdfs-native, each method of which is called by ``call``."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return functools.partial(call, getattr(self._inner, name))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.drop)
