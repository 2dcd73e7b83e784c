"""A study as plain text: at most 100 columns, only characters and newlines, so it can be logged and mailed."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from asyncsearch.report.formatting import cut, duration, many, number, params
from asyncsearch.report.live.status import StudyStatus, TrialRow
from asyncsearch.trial import TrialState

WIDTH = 100
_LONGEST_FACT = 400


def table(status: StudyStatus) -> str:
    """Return the status as lines of at most 100 characters; only a longer path or word exceeds them."""
    lines = [cut(status.name, WIDTH)]
    for fact in facts(status):
        lines += textwrap.wrap(fact, WIDTH - 2, initial_indent="  ", subsequent_indent="    ", break_long_words=False)
    if status.rows:
        lines += ["", *grid(status.metric, status.rows, status.best.name if status.best is not None else "")]
    return "\n".join(lines)


def short_line(status: StudyStatus) -> str:
    """Return one line for a log: time, trials, best."""
    time = "" if status.elapsed_s is None else duration(status.elapsed_s)
    parts = [time, status.counts_line(), best_line(status), failures_line(status, "failure")]
    return cut(" | ".join(filter(None, parts)), 200)


def facts(status: StudyStatus) -> list[str]:
    """Return the facts besides the trials, one on each line."""
    lines = [
        status.scheduler,
        status.counts_line(),
        best_line(status),
        incumbent_line(status),
        training_line(status),
        workers_line(status),
        failures_line(status, "failed attempt"),
        f"stopping: {status.stopping}" if status.stopping else "",
        f"in {status.store}" if status.store else "",
    ]
    return [cut(line, _LONGEST_FACT) for line in lines if line]


def best_line(status: StudyStatus) -> str:
    """Return "best accuracy 0.98 at 27: trial-7"."""
    best = status.best
    if best is None:
        return f"no {status.metric} yet"
    return f"best {status.metric} {number(best.value)} at {best.resource:,}: {best.name}"


def incumbent_line(status: StudyStatus) -> str:
    """Return "incumbent: accuracy 0.99 at 9: trial-3", an intermediate value; empty if the best last value is equal."""
    seen = status.incumbent
    if seen is None or (status.best is not None and status.best.value == seen.value):
        return ""
    return f"incumbent: {status.metric} {number(seen.value)} at {seen.resource:,}: {seen.name}"


def training_line(status: StudyStatus) -> str:
    """Return the units that were trained, and how much less that is than training every trial to the end."""
    line = f"{many(status.trained, 'unit')} of training"
    if status.saved is None or status.full is None:
        return line
    return f"{line}, {status.saved:.0%} less than the {status.full:,} of training every trial to the end"


def workers_line(status: StudyStatus) -> str:
    """Return how many workers there are, and the time since the run began; empty between runs."""
    if not status.workers_wanted:
        return ""
    time = "" if status.elapsed_s is None else f" after {duration(status.elapsed_s)}"
    return f"{status.workers_alive} of {many(status.workers_wanted, 'worker')}{time}"


def failures_line(status: StudyStatus, noun: str) -> str:
    """Return how many attempts failed and why the last one did; empty if none did."""
    last = f", the last one {status.last_failure}" if status.last_failure else ""
    return f"{many(status.failures, noun)}{last}" if status.failures else ""


def headings(metric: str) -> tuple[str, ...]:
    """Return the headings of the columns."""
    return ("trial", "state", "at", metric, "configuration")


def cells(row: TrialRow) -> tuple[str, ...]:
    """Return the cells of a row; a failed trial has its error in place of its configuration."""
    is_unfinished = row.state in (TrialState.RUNNING, TrialState.WAITING) and row.target is not None
    at = f"{row.resource:,} of {row.target:,}" if is_unfinished else f"{row.resource:,}"
    what = row.reason if row.state is TrialState.FAILED else params(row.params)
    return row.name, row.state.value.lower(), at, number(row.value), what


def grid(metric: str, trials: Sequence[TrialRow], best: str = "") -> list[str]:
    """Return a line for each trial below a line of headings; the trial named ``best`` is marked."""
    rows = [headings(metric), *map(cells, trials)]
    short = [[cut(cell, 20) for cell in row[:-1]] for row in rows]
    widths = [max(map(len, column)) for column in zip(*short, strict=True)]
    lines = []
    for first, row in zip(short, rows, strict=True):
        mark = "*" if row[0] == best else " "
        start = "  ".join([mark, *(cell.ljust(width) for cell, width in zip(first, widths, strict=True))])
        lines.append(f"{start}  {cut(row[-1], max(10, WIDTH - len(start) - 2))}".rstrip())
    return lines
