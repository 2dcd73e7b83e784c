"""The studies of one cluster as a table: a line each, with the workers that it holds and may have."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from asyncsearch.report.formatting import cut, many
from asyncsearch.report.live.status import StudyStatus
from asyncsearch.report.live.table import WIDTH, best_line

_HEADINGS = ("study", "workers", "trials", "best")
_LONGEST_NAME = 30


class StudyRow(msgspec.Struct, frozen=True):
    """A study as the table shows it."""

    name: str
    held: int
    """How many workers it holds."""
    share: int
    """How many it may have."""
    status: StudyStatus | None = None
    """As last known; None: nothing is known yet."""
    is_running: bool = True


def cluster_table(rows: Sequence[StudyRow], workers: int) -> str:
    """Return the studies of a cluster of so many workers, a line each of at most 100 characters."""
    cells = [_HEADINGS, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    used = sum(row.held for row in rows)
    lines = [f"{used} of {many(workers, 'worker')}, {len(rows)} {'study' if len(rows) == 1 else 'studies'}"]
    for row in cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append(f"  {line}".rstrip()[:WIDTH])
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
