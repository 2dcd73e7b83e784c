"""Texts of trials, stores and workers as a terminal may show them: nothing in them moves the cursor or forges a line.

What trials print and name is stored as it is; it is made harmless here, where people see it.
"""

from __future__ import annotations

import csv
import io
import json
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

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
