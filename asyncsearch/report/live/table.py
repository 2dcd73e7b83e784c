"""A study, or the studies of a cluster, as a table: of plain text, to be logged and mailed, and as HTML for a notebook.

The text has at most 100 columns. The HTML is one self-contained element, readable on light and on dark pages; all text
in it goes through ``escape``, since names, parameters and errors are the user's.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

import msgspec

from asyncsearch.ablation.left_out import PARAMETER, Ablated
from asyncsearch.report.formatting import aligned, cut, many, number
from asyncsearch.report.live.lines import WIDTH, best_line, continue_command, facts, title, unshown_line
from asyncsearch.report.live.status import StudyStatus, TrialRow
from asyncsearch.sequences.params import params
from asyncsearch.sequences.svg import escape
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
    value = "not finite" if row.is_nonfinite else number(row.value)  # "-" would read as if it had reported nothing
    return row.name, words(row.state), at, value, *metrics, what


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


# Colours are those of the page made fainter, or middle tones that are visible on white and on black.
_FONT = "font:13px/1.45 system-ui,sans-serif;color:inherit"
_FAINT = "opacity:.7"
_LINE = "border-bottom:1px solid rgba(128,128,128,.35)"
_CELL = "text-align:left;padding:2px 14px 2px 0;background:none;white-space:nowrap;color:inherit"
_COLOURS = {
    TrialState.RUNNING: "#1f8fe0",
    TrialState.WAITING: "#8c8c8c",
    TrialState.PAUSED: "#8fb6d9",
    TrialState.STOPPED: "#8c8c8c",
    TrialState.COMPLETED: "#2e9e4f",
    TrialState.FAILED: "#d9483b",
}
"""In the order of the bar: trials that a finished search paused and those that it stopped are neighbours."""
_COLOUR_AT_END = "#86c79a"
"""Of trials that a finished search paused or stopped: the bar of a finished search looks finished."""
_COMMAND = "margin:2px 0 2px 16px;background:none;color:inherit;white-space:pre-wrap"
_LONGEST_CELL = 120


def html(status: StudyStatus) -> str:
    """Return the status as a ``<div>``."""
    lines = "".join(f"<div>{escape(fact)}</div>" for fact in facts(status))
    command = f'<pre style="{_COMMAND}">{escape(continue_command(status))}</pre>' if status.is_unfinished else ""
    return (
        f'<div style="{_FONT}"><div style="font-weight:600">{escape(title(status))}</div>{_bar(status)}'
        f'<div style="{_FAINT}">{lines}</div>{command}{_table(status)}</div>'
    )


def _bar(status: StudyStatus) -> str:
    """Return a thin bar: the share of the requested trials in each state."""
    whole = max(status.trials, status.num_trials or 0)
    if not whole:
        return ""
    parts = "".join(
        f'<span title="{status.counts[state]} {status.words(state)}" style="display:block;'
        f'width:{100 * status.counts[state] / whole:.2f}%;background:{_colour(status, state)}"></span>'
        for state in _COLOURS
        if state in status.counts
    )
    style = "display:flex;height:6px;max-width:640px;margin:4px 0;border-radius:3px;overflow:hidden"
    return f'<div style="{style};background:rgba(128,128,128,.25)">{parts}</div>'


def _colour(status: StudyStatus, state: TrialState) -> str:
    is_early = state in (TrialState.PAUSED, TrialState.STOPPED)
    if state is TrialState.RUNNING and status.is_unfinished:
        return _COLOURS[TrialState.WAITING]
    return _COLOUR_AT_END if is_early and status.is_finished else _COLOURS[state]


def _table(status: StudyStatus) -> str:
    if not status.rows:
        return ""
    head = "".join(
        f'<th style="{_CELL};font-weight:600">{escape(cut(name, 40))}</th>'
        for name in headings(status.value_heading, status.others)
    )
    body = "".join(_row(row, status) for row in status.rows)
    more = f'<div style="{_FAINT}">{escape(unshown_line(status))}</div>' if status.unshown else ""
    return (
        f'<table style="border-collapse:collapse;margin:6px 0 0 0;{_FONT}">'
        f'<thead><tr style="{_LINE}">{head}</tr></thead><tbody>{body}</tbody></table>{more}'
    )


def _row(row: TrialRow, status: StudyStatus) -> str:
    is_best = row.name == status.marked
    shown = (escape(cut(cell, _LONGEST_CELL)) for cell in cells(row, status.words, status.others))
    name, state, *numbers, what = shown
    weight = ";font-weight:600" if is_best else ""
    dot = f'<span style="color:{_colour(status, row.state)}">&#9679;</span> '
    texts = (f"{name}{' &#9733;' if is_best else ''}", f"{dot}{state}", *numbers, what)
    columns = "".join(f'<td style="{_CELL}{weight}">{text}</td>' for text in texts)
    return f'<tr style="background:none">{columns}</tr>'
