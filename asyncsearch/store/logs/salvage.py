"""Lines of a log whose checksum is not right: those that look like lines are kept, the others are counted. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SHAPED = re.compile(rb"(?:\d+\.\d{3} [OE] |\.\.\. )[^\x00-\x08\x0b-\x1f\x7f]*")


def damaged_lines(data: bytes) -> Iterator[str]:
    """Yield the lines that are as lines should be, behind a sentence that says how many are not."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    kept = [text for line in lines if (text := _text(line)) is not None]
    gone = f"{len(lines) - len(kept):,} of them are left out, and the others may not be as they were printed"
    yield f"... the next {len(lines):,} lines were damaged in the store: {gone} ..."
    yield from kept


def _text(line: bytes) -> str | None:
    try:
        return line.decode() if _SHAPED.fullmatch(line) else None
    except UnicodeDecodeError:
        return None
