"""Numbers, durations and configurations as people read them, in one place so that all outputs look alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from asyncsearch.errors import SpaceError
from asyncsearch.sequences import is_sequence, revive


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


def duration(seconds: float) -> str:
    """Return "0:01:12", or "2 days 0:01:12"."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    clock = f"{hours}:{minutes:02}:{rest:02}"
    return f"{many(days, 'day')} {clock}" if days else clock


def params(configuration: Mapping[str, Any]) -> str:
    """Return ``width=128 model.lr=0.001``."""
    return " ".join(f"{name}={scalar(value)}" for name, value in flat(configuration))


def scalar(value: Any) -> str:
    """Return one value of a configuration, floats with four significant digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def flat(configuration: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, value) of nested params; a sequence is one value."""
    for name, value in configuration.items():
        if is_sequence(value):
            yield f"{prefix}{name}", _revived(value)
        elif isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _revived(value: Any) -> Any:
    """Return a sequence, or its JSON value if this version does not know it."""
    try:
        return revive(value)
    except SpaceError:
        return value


def cut(text: str, width: int) -> str:
    """Return a text as one printable line of at most ``width`` characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= width else f"{line[: width - 3]}..."
