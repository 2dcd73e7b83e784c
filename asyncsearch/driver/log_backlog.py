"""The lines that wait to be written into the logs, bounded in bytes, and a count of those left out. Pure.

Three bounds hold, and the log says in the place of the lines that each of them left out how many they were:
- of all that waits: the oldest lines of the trial that has most are left out first, as where the store is away;
- of one trial in a run: its first lines are kept, and its last ones, which tell how it ended;
- of all logs of a study: likewise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import msgspec


class LogBounds(msgspec.Struct, frozen=True):
    """How many bytes of text are kept."""

    waiting: int = 32 << 20
    """In the driver's memory."""
    trial: int = 256 << 20
    """Of one trial in one run."""
    study: int = 4 << 30
    """Of all trials, in all runs."""


_LAST_BYTES, _ALL_LAST_BYTES = 16 << 10, 8 << 20
"""Of a trial beyond its bound, the newest lines up to so many bytes are written at the end of the run; and of all."""
_OBJECT_BYTES = 64
"""Memory that a line takes beside its text: a trial may print millions of empty ones."""
_LEAST_LINES = 16
"""A trial that has no more waiting loses its oldest line alone."""


class _Trial:
    """The lines of one trial."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque()
        self.size_bytes = 0
        self.lost_lines = self.lost_bytes = 0
        """The lines left out before the first of them, since they came too fast."""


class _Full:
    """A trial beyond its bound."""

    def __init__(self) -> None:
        self.last: deque[str] = deque()
        self.last_bytes = 0
        self.left_lines = self.left_bytes = 0

    def add(self, line: str, most_bytes: int) -> None:
        """Add a line, and keep no more than ``most_bytes`` of the newest."""
        self.last.append(line)
        self.last_bytes += _size(line)
        while self.last_bytes > most_bytes:
            gone = _size(self.last.popleft())
            self.last_bytes -= gone
            self.left_lines += 1
            self.left_bytes += gone


class LogBacklog:
    """Lines by trial. Whoever calls it from two threads holds a lock of his own."""

    def __init__(self, bounds: LogBounds | None = None) -> None:
        """Begin without lines."""
        self._bounds = bounds or LogBounds()
        self._waiting: dict[str, _Trial] = {}
        self._full: dict[str, _Full] = {}
        self._last_bytes = 0
        self._taken: dict[str, int] = {}
        """Bytes of each trial in this run."""
        self.waiting_bytes = 0
        self.stored_bytes = 0
        """Bytes that the logs of the study take in the store; the caller keeps it up to date."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, trial: str, line: str) -> None:
        """Add a line of a trial."""
        size_bytes = _size(line)
        if (full := self._full.get(trial)) is not None:
            self._add_beyond(full, line)
            return
        taken = self._taken.get(trial, 0) + size_bytes
        is_over = taken > self._bounds.trial
        if is_over or self.stored_bytes + self.waiting_bytes + size_bytes > self._bounds.study:
            self._full[trial] = full = _Full()
            self._add_beyond(full, line)
            limit = f"a run keeps {_shown(self._bounds.trial)} of a trial"
            if not is_over:
                limit = f"the logs of a study keep {_shown(self._bounds.study)}"
            self._append(trial, f"... lines are left out from here: {limit} ...")
            return
        self._taken[trial] = taken
        self._append(trial, line)
        while self.waiting_bytes > self._bounds.waiting and self._leave_out():
            pass

    def drain(self, most_bytes: int) -> Mapping[str, Sequence[str]]:
        """Take out lines to be written, oldest trials first, about ``most_bytes`` at most; empty if none waits."""
        found: dict[str, Sequence[str]] = {}
        size_bytes = 0
        while self._waiting and (not found or size_bytes < most_bytes):
            name, trial = next(iter(self._waiting.items()))
            if found and size_bytes + trial.size_bytes > most_bytes:
                break
            lines = [self._lost(trial)] if trial.lost_lines else []
            trial.lost_lines = trial.lost_bytes = 0
            while trial.lines and (not size_bytes or size_bytes < most_bytes):
                line = trial.lines.popleft()
                lines.append(line)
                size_bytes += _size(line)
                trial.size_bytes -= _held(line)
                self.waiting_bytes -= _held(line)
            found[name] = lines
            if not trial.lines:
                del self._waiting[name]
        return found

    def end(self) -> None:
        """Add, for trials beyond their bounds, how much was left out and their last lines: no more come."""
        full, self._full = self._full, {}
        for name, trial in full.items():
            if trial.left_lines:
                words = (
                    f"{trial.left_lines:,} lines ({_shown(trial.left_bytes)}) were left out here; the last ones follow"
                )
                self._append(name, f"... {words} ...")
            for line in trial.last:
                self._append(name, line)

    def _add_beyond(self, full: _Full, line: str) -> None:
        others = self._last_bytes - full.last_bytes
        full.add(line, min(_LAST_BYTES, _ALL_LAST_BYTES - others))
        self._last_bytes = others + full.last_bytes

    def _append(self, name: str, line: str) -> None:
        trial = self._waiting.get(name)
        if trial is None:
            trial = self._waiting[name] = _Trial()
        trial.lines.append(line)
        trial.size_bytes += _held(line)
        self.waiting_bytes += _held(line)

    def _leave_out(self) -> bool:
        """Leave out the older half of the lines of the trial that has most; return whether there was any."""
        trial = max(self._waiting.values(), key=lambda one: one.size_bytes)
        half = trial.size_bytes // 2
        count = 0
        while len(trial.lines) > 1 and (trial.size_bytes > half or count < _LEAST_LINES):
            line = trial.lines.popleft()
            trial.size_bytes -= _held(line)
            self.waiting_bytes -= _held(line)
            trial.lost_lines += 1
            trial.lost_bytes += _size(line)
            count += 1
        return count > 0

    def _lost(self, trial: _Trial) -> str:
        words = f"{trial.lost_lines:,} lines ({_shown(trial.lost_bytes)}) were left out here"
        return f"... {words}: they came faster than they could be written ..."


def _held(line: str) -> int:
    return _size(line) + _OBJECT_BYTES


def _size(line: str) -> int:
    """Return how many bytes of the store a line takes."""
    return len(line) + 1 if line.isascii() else len(line.encode(errors="backslashreplace")) + 1


def _shown(size_bytes: int) -> str:
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)):
        if size_bytes >= size:
            return f"{size_bytes / size:.3g} {unit}"
    return f"{size_bytes} bytes"
