"""A study as HTML for a notebook cell: one self-contained element, readable on light and on dark pages.

Rule: all text goes through ``escape``: names, parameters and errors are the user's.
"""

from __future__ import annotations

from asyncsearch.report.formatting import cut
from asyncsearch.report.live.lines import continue_command, facts, title, unshown_line
from asyncsearch.report.live.status import StudyStatus, TrialRow
from asyncsearch.report.live.table import cells, headings
from asyncsearch.sequences.svg import escape
from asyncsearch.trial import TrialState

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
