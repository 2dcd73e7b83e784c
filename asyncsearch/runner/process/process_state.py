"""The changes of a trial to its process, undone before the next one: what would interrupt, limit, end or hide it.

A trial's connections with other ranks outlive it, too, and are closed when the process trains again.

Not undone is what libraries set once, at their import or first use, and expect to stay: environment variables, the
import path, settings such as default types, warnings and locales, and the handler of SIGCHLD, which torch has.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import io
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, TextIO

from asyncsearch.errors import RankLostError
from asyncsearch.trainable.gang import RankConnection

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_TIMERS = [getattr(signal, name) for name in ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF") if hasattr(signal, name)]
_OTHERS = {getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGCHLD", "SIGKILL", "SIGSTOP")}
"""Signals that are handled elsewhere, or by nobody."""
_NUMBERS = sorted(number for number in signal.valid_signals() if number not in _OTHERS)


class SignalState:
    """The timers, signal handlers and signal mask of a process; made and restored in its main thread."""

    def __init__(self) -> None:
        self._handlers = {number: signal.getsignal(number) for number in _NUMBERS}
        self._blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self._idle = [timer for timer in _TIMERS if signal.getitimer(timer) == (0.0, 0.0)]

    def restore(self) -> None:
        """Call off the timers that were set since, and set the former handlers and the former mask."""
        for timer in self._idle:
            signal.setitimer(timer, 0)
        for number, handler in self._handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(number, handler)
        if signal.pthread_sigmask(signal.SIG_BLOCK, ()) != self._blocked:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)


class ProcessState(SignalState):
    """All that is restored in a process that exists for trials."""

    def __init__(self) -> None:
        super().__init__()
        self._umask = _umask()
        self._recursion = sys.getrecursionlimit()
        self._argv = sys.argv, list(sys.argv)
        self._cores = _cores()
        self._tracers = sys.gettrace(), sys.getprofile()
        self._collects = gc.isenabled()
        self._limits = {number: _limit(number) for number in _limit_numbers()}
        self._threads = set(threading.enumerate())

    def restore(self) -> None:
        """Undo all changes since."""
        super().restore()
        faulthandler.cancel_dump_traceback_later()
        if _umask() != self._umask:
            os.umask(self._umask)
        if sys.getrecursionlimit() != self._recursion:
            with contextlib.suppress(RecursionError):
                sys.setrecursionlimit(self._recursion)
        sys.argv, arguments = self._argv
        sys.argv[:] = arguments
        if _cores() != self._cores:
            with contextlib.suppress(OSError):  # they may have been taken from the process meanwhile
                os.sched_setaffinity(0, self._cores)
        _let_start_method_be_set()
        if (sys.gettrace(), sys.getprofile()) != self._tracers:
            sys.settrace(self._tracers[0])
            sys.setprofile(self._tracers[1])
        if self._collects and not gc.isenabled():
            gc.enable()
        for number, limit in self._limits.items():
            if _limit(number) != limit:
                with contextlib.suppress(OSError, ValueError):  # a lowered hard limit cannot be raised again
                    resource.setrlimit(number, (limit[0], min(limit[1], _limit(number)[1], key=_size)))

    def new_threads(self) -> list[threading.Thread]:
        """Return the threads that were left running since the last call, but for daemons and those of idle pools."""
        now = set(threading.enumerate())
        new, self._threads = now - self._threads, now
        pools: Any = sys.modules.get("concurrent.futures.thread")
        idle = () if pools is None else pools._threads_queues  # they wait for work by design
        left = [thread for thread in new if thread.is_alive() and not thread.daemon and thread not in idle]
        return sorted(left, key=lambda thread: thread.name)


def _let_start_method_be_set() -> None:
    """Keep the start method of processes as the default one: a second ``set_start_method`` would be refused."""
    module: Any = sys.modules.get("multiprocessing.context")
    context: Any = getattr(module, "_default_context", None)
    if getattr(context, "_actual_context", None) is not None and hasattr(context, "_default_context"):
        context._default_context, context._actual_context = context._actual_context, None


def _cores() -> set[int]:
    """Return the processors on which this thread may run. Empty if the system does not tell."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def _umask() -> int:
    umask = os.umask(0o77)
    os.umask(umask)
    return umask


def _limit_numbers() -> list[int]:
    names = ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE")
    return [getattr(resource, name) for name in names if hasattr(resource, name)]


def _limit(number: int) -> tuple[int, int]:
    return resource.getrlimit(number)


def _size(limit: int) -> float:
    return float("inf") if limit == resource.RLIM_INFINITY else limit


class RankConnections:
    """The connections of this process with other ranks of a gang, of which there is one training at a time."""

    def __init__(self) -> None:
        self._open: list[RankConnection] = []

    def keep(self, connection: RankConnection) -> None:
        """Keep a connection until ``close``: at the end of its training other ranks may still read from it."""
        self._open.append(connection)

    def close(self) -> None:
        """Close the connections of the last training."""
        while self._open:
            self._open.pop().close()

    def is_lost_rank(self, error: BaseException) -> bool:
        """Return whether an error says that another rank of the gang is gone, which is not this trial's doing."""
        return isinstance(error, RankLostError) or any(one.is_lost_rank(error) for one in self._open)


rank_connections = RankConnections()


_STREAMS = ((1, "stdout"), (2, "stderr"))


class Stdio:
    """Keeps its own descriptors of both outputs, so that a trial may close or redirect the usual ones."""

    def __init__(self, marker: bytes) -> None:
        self._marker = marker
        self._kept = {number: os.dup(number) for number, _ in _STREAMS}
        self._stream = {number: _open(number) for number, _ in _STREAMS}
        self._flush_c = _find_flush()
        self.restore()

    def restore(self) -> None:
        """Undo the previous training's changes to the outputs."""
        for number, name in _STREAMS:
            if not _is_same(number, self._kept[number]):
                os.dup2(self._kept[number], number)
            if self._stream[number].closed:
                self._stream[number] = _open(number)
            if getattr(sys, name) is not self._stream[number]:
                setattr(sys, name, self._stream[number])

    def end(self) -> None:
        """Flush all output, and write the marker after it."""
        # C libraries buffer their own output, which would otherwise appear as the next trial's.
        self._flush_c()
        for number, name in _STREAMS:
            for stream in (getattr(sys, name), self._stream[number]):
                with contextlib.suppress(Exception):
                    stream.flush()
            with contextlib.suppress(OSError):
                os.write(self._kept[number], self._marker)


def _open(number: int) -> TextIO:
    raw = io.FileIO(number, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True)


def _is_same(number: int, kept: int) -> bool:
    try:
        return os.path.samestat(os.fstat(number), os.fstat(kept))
    except OSError:
        return False


def _find_flush() -> Callable[[], object]:
    try:
        import ctypes

        flush = ctypes.CDLL(None).fflush
    except (ImportError, OSError, AttributeError):
        return lambda: None
    return lambda: flush(None)
