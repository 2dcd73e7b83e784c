"""Numbers and durations as people read them, in one place so that all outputs look alike."""

from __future__ import annotations

import functools
import shlex
import shutil
import sys
import time
from collections.abc import Sequence

UNIT = "a unit is an epoch, or whatever you train between two reports"
"""What people have to know of units where these are counted."""


def number(value: float | None) -> str:
    """Return a value of a metric with five significant digits, or ``-``."""
    return "-" if value is None else f"{value:.5g}"


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each row, with its cells aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def many(amount: int, noun: str) -> str:
    """Return "1 trial", "2 trials"."""
    return f"{amount:,} {noun}" if amount == 1 else f"{amount:,} {noun}s"


def share(part: float) -> str:
    """Return a part of a whole, from 0 to 1, as "61%"; what is less than everything is never "100%"."""
    return "over 99%" if 0.99 < part < 1 else f"{part:.0%}"


def duration(seconds: float) -> str:
    """Return "0:01:12", or "2 days 0:01:12"."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    clock = f"{hours}:{minutes:02}:{rest:02}"
    return f"{many(days, 'day')} {clock}" if days else clock


def moment(seconds: float) -> str:
    """Return a moment, in seconds since 1970, as "2026-11-22 at 14:07" in the time zone of this machine."""
    return time.strftime("%Y-%m-%d at %H:%M", time.localtime(seconds))


def time_of(seconds: float) -> str:
    """Return a moment, in seconds since 1970, as "14:07:31" in the time zone of this machine."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


@functools.cache
def _program() -> str:
    return "asyncsearch" if shutil.which("asyncsearch") else f"{shlex.quote(sys.executable)} -m asyncsearch"


def command(*words: str) -> str:
    """Return a command line of asyncsearch that can be pasted into a shell of this machine."""
    return f"{_program()} {shlex.join(words)}"


def cut(text: str, width: int) -> str:
    """Return a text as one printable line of at most ``width`` characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= width else f"{line[: width - 3]}..."
