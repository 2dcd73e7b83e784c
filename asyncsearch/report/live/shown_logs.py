"""The output of trials as people see it: beside a search, and by a second process that follows a log in the store.

Beside a search the lines are limited: a trial that prints a million must not hide the others. Who follows a log polls
the store, and does not disturb the driver.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from asyncsearch.actions import EndRun, MoveTrial
from asyncsearch.events import DriverStarted, RunRequested
from asyncsearch.ids import TrialId, trial_name
from asyncsearch.journal.opening import read_records
from asyncsearch.report.formatting import command, many, printable, time_of_day
from asyncsearch.rpc.messages import LogLine
from asyncsearch.store.base_store import Store
from asyncsearch.store.logs.reader import LogReader

LINES_PER_S = 100
_BURST = 500
_LONGEST_LINE = 500
_LEAST_WIDTH = len("trial-99")
_SHORTEST_S, _LONGEST_S = 0.5, 5.0
"""Pauses between two looks at a log."""
_LAST_LINES_S = 2.0


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


def log_lines(lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines of a log for people: "1795244400.250 O text" begins with the worker's time of day."""
    for line in lines:
        stamp, _, rest = line.partition(" ")
        stream, _, text = rest.partition(" ")
        try:
            clock = time_of_day(float(stamp))
        except ValueError:
            yield printable(line, keep="\t")
            continue
        yield f"{clock} {'!' if stream == 'E' else ' '} {printable(text, keep=chr(9))}"


def follow(store: Store, trial: TrialId, wait: Callable[[float], None] = time.sleep) -> Iterator[str]:
    """Yield the lines of a trial's log until the trial or the run has ended, or no driver has the study open.

    Polls twice a second while there are new lines, and ever less often, down to every 5 seconds, while there are none.
    """
    progress = _Progress(store, trial)
    log = LogReader(store, trial_name(trial))
    pause_s = _SHORTEST_S
    while True:
        is_over = progress.is_over()
        if is_over:
            # The driver writes lines a moment later than it records that the trial has ended.
            wait(_LAST_LINES_S)
        new = 0
        for line in log.lines():
            new += 1
            yield line
        if is_over:
            if log.unread:
                yield f"... {log.unread} ..."
            return
        pause_s = _SHORTEST_S if new else min(2 * pause_s, _LONGEST_S)
        wait(pause_s)


class _Progress:
    """Reads new records of the journal, and knows whether more lines can follow."""

    def __init__(self, store: Store, trial: TrialId) -> None:
        self._store, self._trial = store, trial
        self._last = 0
        self._is_running = self._has_ended = False

    def is_over(self) -> bool:
        for record in read_records(self._store, skip=self._last):
            self._last = record.n
            if isinstance(record.event, DriverStarted | RunRequested):
                self._is_running = isinstance(record.event, RunRequested)
            for action in record.actions:
                if isinstance(action, EndRun):
                    self._is_running = False
                elif isinstance(action, MoveTrial) and action.trial == self._trial:
                    self._has_ended = action.to.is_finished
        return self._has_ended or not self._is_running or not self._store.is_locked()
