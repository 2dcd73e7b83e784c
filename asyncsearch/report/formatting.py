"""Numbers, sizes, durations and texts as people read and write them, in one place so that all outputs look alike.

Texts of trials, stores and workers are stored as they are, and made harmless here, where a terminal may show them:
nothing in them moves the cursor or forges a line.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import re
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from typing import Any

from asyncsearch.errors import UsageError

UNIT = "a unit is an epoch, or whatever you train between two reports"
"""An explanation of units for the places where these are counted."""
_BYTES = {"": 1, "B": 1} | {
    f"{letter}{i}B": base ** (power + 1)
    for i, base in (("", 1000), ("i", 1024))
    for power, letter in enumerate("KMGTP")
}
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


class Lines(str):
    """A text that is shown with its lines where a notebook's cell ends with it, as ``print`` would show it."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def number(value: float | None) -> str:
    """Return a value of a metric with five significant digits, or ``-``."""
    return "-" if value is None else f"{value:.5g}"


def aligned(rows: Sequence[Sequence[str]], *, left: int = 0, fill: bool = False) -> list[str]:
    """Return a line for each row, with its first ``left`` cells aligned to the left and the others to the right.

    ``fill``: whether all lines are equally long.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = [
        [
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in rows
    ]
    return ["  ".join(row) if fill else "  ".join(row).rstrip() for row in cells]


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


def size(amount: int) -> str:
    """Return a number of bytes with three significant digits: "12.3 MB"."""
    value, unit = float(amount), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:.3g} {unit}"


def parse_size(text: str) -> int:
    """Read a number of bytes: "10GB", "1.5 TB", "512MiB", "0".

    Raises:
        UsageError: it is not one.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([A-Za-z]*)", text.strip())
    unit = match[2].upper().replace("I", "i") if match else "?"
    if match is None or unit not in _BYTES:
        raise UsageError(f"{text!r} is not a size: write it as '10GB', '500MB' or '1.5TiB'.")
    return int(float(match[1]) * _BYTES[unit])


def parse_age(text: str) -> float:
    """Read a time in seconds: "30d", "12h", "2w".

    Raises:
        UsageError: it is not one.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([smhdw])", text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not an age: write it as '30d', '12h' or '2w'.")
    return float(match[1]) * _SECONDS[match[2]]


_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, movements of the cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # titles, links, the clipboard
    r"|\x1b[@-Z\\-_]"
)
NO_TIME = "--:--:--"


def printable(text: str, keep: str = "\n\t") -> str:
    """Return a text without escape sequences; other characters that cannot be printed become "?", but for ``keep``."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else "?" for char in _ESCAPES.sub("", text))


def time_of_day(time_s: float) -> str:
    """Return "12:00:01" of seconds since 1970, in local time; "--:--:--" if no clock can have shown them."""
    try:
        return time.strftime("%H:%M:%S", time.localtime(time_s))
    except (ValueError, OverflowError, OSError):
        return NO_TIME


def csv_text(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> str:
    r"""Return rows as CSV, one line each: a character that cannot be printed is written as ``\x1b``.

    Args:
        names: of the columns, in their order.
    """
    headings = {name: _escaped(name) for name in names}
    out = io.StringIO()
    writer = csv.DictWriter(out, list(headings.values()), lineterminator="\n")
    writer.writeheader()
    writer.writerows({headings[name]: _escaped(value) for name, value in row.items()} for row in rows)
    return out.getvalue().removesuffix("\n")


def json_text(value: Any, encoding: str = "utf-8") -> str:
    """Return JSON that is the same value for programs in an encoding, and has no control characters for terminals."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return json.dumps(value, indent=2)
    if text.replace("\n", "").isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def _escaped(value: Any) -> Any:
    text = value if isinstance(value, str) else str(value)
    if value is None or text.isprintable():
        return value
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def in_place_text(resources: Sequence[int]) -> str:
    """Return ", went on in place at 1, 3" of a trial that was promoted there; empty if it was nowhere."""
    return f", went on in place at {', '.join(f'{resource:,}' for resource in resources)}" if resources else ""
