"""A trial's output: bytes to lines, and the newest of too many lines. Pure: no descriptors and no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from asyncsearch.agent.config import LogLimits
from asyncsearch.rpc.messages import LogLine

_TAIL_LINES = 20


class LineReader:
    """Splits one output of a runner into lines, and finds the marker that ends a training."""

    def __init__(self, marker: bytes, max_bytes: int) -> None:
        assert marker.endswith(b"\n")
        self._marker = marker
        self._max_bytes = max_bytes
        self._rest = b""

    def feed(self, data: bytes) -> tuple[list[bytes], list[bytes] | None]:
        """Add bytes, and return the lines before the marker and after it. None for these if it has no marker."""
        data = self._rest + data
        before, marker, after = data.partition(self._marker)
        if not marker:
            return self._split(data), None
        self._rest = b""
        lines = before.split(b"\n")
        if not lines[-1]:
            lines.pop()
        return lines, self._split(after)

    def end(self) -> list[bytes]:
        """Return the last line if it has no newline."""
        rest, self._rest = self._rest, b""
        return [rest] if rest else []

    def _split(self, data: bytes) -> list[bytes]:
        lines = data.split(b"\n")
        rest = lines.pop()
        if len(rest) > self._max_bytes + len(self._marker):
            rest = _folded(rest)
            # A line without an end must not grow forever; its last bytes may be the start of a marker.
            rest = rest[: self._max_bytes] + rest[-len(self._marker) :]
        self._rest = rest
        return lines


class LogBuffer:
    """Holds the lines of one training until they are sent."""

    def __init__(self, limits: LogLimits) -> None:
        self._limits = limits
        self._lines: deque[tuple[float, bool, bytes]] = deque(maxlen=limits.lines_per_s)
        self._tail: deque[bytes] = deque(maxlen=_TAIL_LINES)
        self._left_out = 0
        self._line_budget = float(limits.lines_per_s)
        self._char_budget = float(limits.chars_per_s)
        self._filled_at: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no lines wait to be sent."""
        return not self._lines and not self._left_out

    def add(self, lines: Sequence[bytes], is_stderr: bool, time_s: float) -> None:
        """Add lines that were printed at ``time_s``, seconds since 1970."""
        room = self._limits.lines_per_s
        self._left_out += max(0, len(self._lines) + len(lines) - room)
        newest = lines[-room:]
        self._lines.extend((time_s, is_stderr, line) for line in newest)
        self._tail.extend(newest[-_TAIL_LINES:])

    def take(self, now: float) -> tuple[tuple[LogLine, ...], int]:
        """Return the newest lines that may be sent at ``now`` (monotonic seconds), and the number of omitted ones."""
        self._refill(now)
        kept: list[LogLine] = []
        while self._lines and self._line_budget >= 1 and self._char_budget > 0:
            time_s, is_stderr, line = self._lines.pop()
            text = clean(line, self._limits.line_chars)
            self._line_budget -= 1
            self._char_budget -= len(text)
            kept.append(LogLine(time_s, text, is_stderr))
        left_out = self._left_out + len(self._lines)
        self._lines.clear()
        self._left_out = 0
        return tuple(reversed(kept)), left_out

    def tail(self) -> list[str]:
        """Return the last lines, whether sent or omitted."""
        return [clean(line, self._limits.line_chars) for line in self._tail]

    def _refill(self, now: float) -> None:
        """Refill the budgets, at most to those of one second."""
        if self._filled_at is not None:
            passed_s = now - self._filled_at
            lines, chars = self._limits.lines_per_s, self._limits.chars_per_s
            self._line_budget = min(lines, self._line_budget + lines * passed_s)
            self._char_budget = min(chars, self._char_budget + chars * passed_s)
        self._filled_at = now


def clean(line: bytes, max_chars: int) -> str:
    """Return a line as text: replace invalid bytes, keep the last state of a progress bar, and cut a long line."""
    text = _folded(line[: 8 * max_chars] if b"\r" not in line else line).decode(errors="replace")
    return text if len(text) <= max_chars else f"{text[:max_chars]} ..."


def _folded(line: bytes) -> bytes:
    """Return a line with carriage returns as a terminal would show it."""
    line = line.rstrip(b"\r")
    return line[line.rfind(b"\r") + 1 :]
