"""Lines about what cleaning removed or would remove; sizes and ages as people write them."""

from __future__ import annotations

import re
from collections import Counter

from asyncsearch.errors import UsageError
from asyncsearch.report.formatting import many
from asyncsearch.shared.cleaning import Cleaning, Item

_BYTES = {"": 1, "B": 1} | {
    f"{letter}{i}B": base ** (power + 1)
    for i, base in (("", 1000), ("i", 1024))
    for power, letter in enumerate("KMGTP")
}
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def line(item: Item, dry_run: bool) -> str:
    """Return what happened to one item, and why."""
    verb = "would remove" if dry_run else "removed"
    return f"{verb} {item.kind} {item.name}, {size(item.size_bytes)}: {item.why}"


def totals(cleaning: Cleaning, dry_run: bool) -> str:
    """Return how much was removed and how much stays."""
    amounts, sizes = Counter[str](), Counter[str]()
    for item in cleaning.gone:
        amounts[item.kind] += 1
        sizes[item.kind] += item.size_bytes
    parts = [f"{many(amounts[kind], kind)} ({size(sizes[kind])})" for kind in sorted(amounts)]
    verb = "would remove" if dry_run else "removed"
    came = f"; {many(len(cleaning.stayed), 'item')} became needed meanwhile" if cleaning.stayed else ""
    stay = f"{many(cleaning.kept, 'checkpoint')} ({size(cleaning.kept_bytes)})"
    return f"{verb} {', '.join(parts) or 'nothing'}{came}; {stay} {'stays' if cleaning.kept == 1 else 'stay'}"


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
