"""Which values a callback of a program reports: all, or those that it names, by other names in a dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asyncsearch.errors import UsageError

NamedMetrics = str | Sequence[str] | Mapping[str, str] | None
"""None: all; else names, or the name in the report -> the name of the framework."""


def chosen(metrics: NamedMetrics, values: Mapping[str, Any], who: str) -> dict[str, Any]:
    """Return the values of a framework that are to be reported.

    Raises:
        UsageError: it has none of those that are named.
    """
    if metrics is None:
        return dict(values)
    names = {metrics: metrics} if isinstance(metrics, str) else metrics
    named = names if isinstance(names, Mapping) else {name: name for name in names}
    found = {name: values[theirs] for name, theirs in named.items() if theirs in values}
    if not found:
        raise UsageError(
            f"{who} was to report {', '.join(map(repr, named.values()))}, and there is "
            f"{', '.join(sorted(values)) or 'nothing'} here: name what there is."
        )
    return found


def events_of(on: str | Sequence[str]) -> frozenset[str]:
    """Return the names of events, with or without "on_" before them."""
    return frozenset(one.removeprefix("on_") for one in ([on] if isinstance(on, str) else on))
