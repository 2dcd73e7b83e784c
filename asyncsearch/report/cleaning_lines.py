"""Lines about what cleaning removed or would remove."""

from __future__ import annotations

from collections import Counter

from asyncsearch.report.formatting import many, size
from asyncsearch.shared.cleaning import Cleaning, Item


def line(item: Item, dry_run: bool) -> str:
    """Return a line on the end of one item, and its reason."""
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
