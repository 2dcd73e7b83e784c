"""The runner's standard output and error: restored before each training, and marked after it."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable
from typing import TextIO

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
