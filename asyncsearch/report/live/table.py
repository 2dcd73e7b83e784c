"""A study, or the studies of a cluster, as a table of plain text of at most 100 columns, to be logged and mailed."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

import msgspec

from asyncsearch.ablation.left_out import PARAMETER, Ablated
from asyncsearch.report.formatting import aligned, cut, many, number
from asyncsearch.report.live.lines import WIDTH, best_line, continue_command, facts, title, unshown_line
from asyncsearch.report.live.status import StudyStatus, TrialRow
from asyncsearch.sequences.params import params
from asyncsearch.trial import Params, TrialState

_UNITS, _LONGEST_UNITS = 2, 40
"""The column of units, and the characters that it may take."""
_LONGEST_OTHER = 12
"""Characters of the column of another metric."""
_HEADINGS = ("study", "workers", "trials", "best")
_LONGEST_NAME = 30


def table(status: StudyStatus) -> str:
    """Return the status as lines of at most 100 characters; only a longer path or word exceeds them."""
    lines = textwrap.wrap(title(status), WIDTH, subsequent_indent="    ", break_long_words=False) or [""]
    for fact in facts(status):
        lines += textwrap.wrap(fact, WIDTH - 2, initial_indent="  ", subsequent_indent="    ", break_long_words=False)
    if status.is_unfinished:
        lines.append(f"    {continue_command(status)}")  # in one piece, else it could not be pasted
    if status.rows:
        lines += ["", *grid(status.value_heading, status.rows, status.marked, status.words, status.others)]
        lines += [f"  {unshown_line(status)}"] if status.unshown else []
    return "\n".join(lines)


def headings(metric: str, others: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the headings of the columns; ``others`` are metrics besides the study's."""
    return ("trial", "state", "units", metric, *others, "configuration")


def cells(row: TrialRow, words: Callable[[TrialState], str], others: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the cells of a row; a failed trial has its error in place of its configuration."""
    is_unfinished = row.state in (TrialState.RUNNING, TrialState.WAITING) and row.target is not None
    at = f"{row.resource:,} of {row.target:,}" if is_unfinished else f"{row.resource:,}"
    if row.goes_on_from is not None:
        at += f", goes on from {row.goes_on_from:,}"
    what = row.reason if row.state is TrialState.FAILED else _configuration(row.params)
    metrics = [number(row.metrics.get(name)) for name in others]
    return row.name, words(row.state), at, number(row.value), *metrics, what


def _configuration(given: Params) -> str:
    """Return the parameters in words; of a variant of an ablation study, what it lacks."""
    if PARAMETER not in given:
        return params(given)
    ablated = Ablated.of(given[PARAMETER])
    lacks = f"without {ablated}" if ablated.components else "everything"
    return f"{lacks}, seed {given['seed']}" if "seed" in given else lacks


def grid(
    metric: str,
    trials: Sequence[TrialRow],
    best: str,
    words: Callable[[TrialState], str],
    others: Sequence[str] = (),
) -> list[str]:
    """Return a line for each trial below a line of headings; the trial named ``best`` is marked.

    ``words`` gives the text for a state.
    """
    rows = [headings(metric, others), *(cells(row, words, others) for row in trials)]
    longest = {_UNITS: _LONGEST_UNITS} | dict.fromkeys(range(_UNITS + 2, _UNITS + 2 + len(others)), _LONGEST_OTHER)
    short = [[cut(cell, longest.get(column, 20)) for column, cell in enumerate(row[:-1])] for row in rows]
    lines = []
    for first, row in zip(aligned(short, left=len(rows[0]), fill=True), rows, strict=True):
        start = f"{'*' if row[0] == best else ' '}  {first}"
        lines.append(f"{start}  {cut(row[-1], max(10, WIDTH - len(start) - 2))}".rstrip())
    return lines


class StudyRow(msgspec.Struct, frozen=True):
    """A study as the table shows it."""

    name: str
    held: int
    """How many workers it holds."""
    share: int
    """How many it may have."""
    status: StudyStatus | None = None
    """As last known; None if nothing is known yet."""
    is_running: bool = True


def cluster_table(rows: Sequence[StudyRow], workers: int) -> str:
    """Return the studies of a cluster of so many workers, a line each of at most 100 characters."""
    used = sum(row.held for row in rows)
    lines = [f"{used} of {many(workers, 'worker')}, {len(rows)} {'study' if len(rows) == 1 else 'studies'}"]
    lines += [f"  {line}"[:WIDTH] for line in aligned([_HEADINGS, *map(_cells, rows)], left=len(_HEADINGS))]
    return "\n".join(lines)


def _cells(row: StudyRow) -> tuple[str, ...]:
    status = row.status
    gangs = f", {status.workers_each} to a trial" if status is not None and status.workers_each > 1 else ""
    if status is not None and status.enlarged:
        gangs += f", {status.enlarged[0]}{' and others' if len(status.enlarged) > 1 else ''}"
    workers = f"{row.held} of {row.share}{gangs}" if row.is_running else "ended"
    return cut(row.name, _LONGEST_NAME), workers, _trials(status), best_line(status) if status is not None else ""


def _trials(status: StudyStatus | None) -> str:
    if status is None:
        return "-"
    of = f" of {status.num_trials:,}" if status.num_trials is not None else ""
    return f"{status.trials:,}{of}"
