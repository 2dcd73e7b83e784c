"""Limits the lines of trials that are shown: a trial that prints a million must not hide the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from asyncsearch.report.formatting import command, many
from asyncsearch.report.plain_text import printable, time_of_day
from asyncsearch.rpc.messages import LogLine

LINES_PER_S = 100
_BURST = 500
_LONGEST_LINE = 500
_LEAST_WIDTH = len("trial-99")


class LinePrinter:
    """Shows a limited number of lines per second, the newest ones, and counts the others."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int | None = None) -> None:
        """Show ``most`` lines in all; None means no limit."""
        self._clock = clock
        self._left = most
        self._width = _LEAST_WIDTH
        self._allowance = float(_BURST)
        self._refilled_s = clock()

    def chosen(self, lines: Sequence[tuple[str, LogLine]], store: str) -> list[str]:
        """Return the new lines to print now, and a line with the number of the others and where they are."""
        if self._left == 0:
            return []
        now = self._clock()
        self._allowance = min(_BURST, self._allowance + (now - self._refilled_s) * LINES_PER_S)
        self._refilled_s = now
        room = int(self._allowance) if self._left is None else min(int(self._allowance), self._left)
        shown = lines[max(0, len(lines) - room) :]
        self._allowance -= len(shown)
        self._width = max([self._width, *(len(trial) for trial, _ in shown)])
        texts = [line_text(trial, line, self._width) for trial, line in shown]
        if len(shown) < len(lines):
            texts.insert(0, f"... {many(len(lines) - len(shown), 'line')} left out here; {_where(store)}")
        if self._left is not None:
            self._left -= len(shown)
            if self._left == 0:
                texts.append(f"... no more lines are shown here, to keep the notebook small; {_where(store)}")
        return texts


def line_text(trial: str, line: LogLine, width: int = 0) -> str:
    """Return "trial-7  12:00:01  text", in the worker's time, as one line without control characters.

    A name is filled up to ``width`` characters, so that the texts of all trials begin in one column.
    """
    return f"{trial:<{width}}  {time_of_day(line.time_s)}  {_clean(line.text)}"


def _clean(text: str) -> str:
    if len(text) > _LONGEST_LINE:
        text = f"{text[:_LONGEST_LINE]}... ({len(text):,} characters)"
    return printable(text, keep="\t")


def _where(store: str) -> str:
    return f"`{command('logs', store or 'STORE', 'TRIAL')}` shows all of them"
