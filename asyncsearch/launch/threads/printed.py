"""The output of threads: the lines of a trial's thread go to its trial, all others where they went before.

``sys.stdout`` and ``sys.stderr`` belong to the process, so both are replaced while trials train in threads. A stream
that a library has kept from before, and what compiled code writes, are not seen.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Sink = Callable[[bool, str], None]
"""Takes (whether it is standard error, text)."""


class _Outputs:
    """The sinks of threads, and the streams that stand in for those of the process while there are any users."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._streams: dict[str, ThreadStream] = {}
        self.sinks: dict[int, Sink] = {}

    def open(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                for name in ("stdout", "stderr"):
                    self._streams[name] = ThreadStream(getattr(sys, name), name == "stderr")
                    setattr(sys, name, self._streams[name])

    def close(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users:
                return
            for name, stream in self._streams.items():
                if getattr(sys, name) is stream:  # else somebody has put another one over it
                    setattr(sys, name, stream.former)


_mine = _Outputs()


@contextmanager
def captured(sink: Sink) -> Iterator[None]:
    """Give the output of the calling thread to a sink."""
    thread = threading.get_ident()
    _mine.sinks[thread] = sink
    try:
        yield
    finally:
        del _mine.sinks[thread]


def open_outputs() -> None:
    """Let ``captured`` have an effect, until as many calls of ``close_outputs``."""
    _mine.open()


def close_outputs() -> None:
    """Give the process its own streams back."""
    _mine.close()


class ThreadStream:
    """A text stream that passes everything to the former one, except what a captured thread writes."""

    def __init__(self, former: Any, is_stderr: bool) -> None:
        self.former = former
        self._is_stderr = is_stderr

    def write(self, text: str) -> int:
        """Write a text to the sink of the calling thread, or to the former stream."""
        if not isinstance(text, str):  # it would fail where it is read: in the worker, which then is lost
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        sink = _mine.sinks.get(threading.get_ident())
        if sink is None:
            return int(self.former.write(text) or 0)
        sink(self._is_stderr, text)
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.former, name)
