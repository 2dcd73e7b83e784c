"""What is said about a stage tree: the saving, who reads an interval, and the values that it is trained with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from asyncsearch.errors import SpaceError
from asyncsearch.ids import trial_name
from asyncsearch.report.formatting import cut, flat, many, number, scalar
from asyncsearch.report.formatting import params as as_words
from asyncsearch.report.tree.view import NAMED, Interval, Kind, TreeNode, TreeView, TrialPath
from asyncsearch.sequences import present

_LONGEST = 400


def saving(tree: TreeView) -> str:
    """Return "448 trials, 53,760 units asked for, 21,960 trained: each unit serves 2.45 trials".

    What another study has trained is counted apart: "1,960 trained and 20,000 taken from other studies".
    """
    said = f"{many(len(tree.ways), 'trial')}, {many(tree.asked, 'unit')} of training asked for"
    distinct = tree.trained + tree.elsewhere
    if not distinct:
        return f"{said}, none trained yet"
    so_far = " so far" if tree.served < tree.asked else ""
    taken = f" and {tree.elsewhere:,} taken from other studies" if tree.elsewhere else ""
    served = tree.served / distinct
    noun = "trial" if f"{served:.2f}" == "1.00" else "trials"
    return f"{said}, {tree.trained:,} trained{taken}{so_far}: each unit serves {served:.2f} {noun}"


def readers(interval: Interval) -> str:
    """Return "trial-1, trial-2 and 10 more"."""
    names = ", ".join(trial_name(trial) for trial in interval.named)
    more = interval.count - len(interval.named)
    return f"{names} and {more:,} more" if more else names or "nobody any more"


def departures(node: TreeNode) -> str:
    """Return "left by trial-3 at 5, trial-4 at 10", who went on with the weights of others; empty if none did."""
    words = [f"{trial_name(trial)} at {at:,}" for at, trial in node.left[:NAMED]]
    more = len(node.left) - len(words)
    return f"left by {', '.join(words)}" + (f" and {more:,} more" if more else "") if words else ""


def fate(interval: Interval) -> str:
    """Return "trained once, for 12 trials"."""
    match interval.kind:
        case Kind.SHARED:
            return f"trained once, for {many(interval.count, 'trial')}"
        case Kind.TRAINED:
            return "trained"
        case Kind.ELSEWHERE:
            return f"trained by another study, for {many(interval.count, 'trial')}"
        case Kind.RUNNING:
            return f"running, for {many(interval.count, 'trial')}"
        case Kind.WAITING:
            return f"waiting, for {many(interval.count, 'trial')}"


def varying(tree: TreeView) -> set[str]:
    """Return the names of the values in which trials differ; all names, if they differ in none."""
    seen: dict[str, set[str]] = {}
    for way in tree.ways:
        for name, value in flat(way.params):
            seen.setdefault(name, set()).add(str(value))
    return {name for name, texts in seen.items() if len(texts) > 1} or set(seen)


def values(params: Mapping[str, Any], start: int, stop: int, only: Collection[str] | None = None) -> str:
    """Return "lr=0.1 -> 0.01 batch_size=32": the values of the first unit of an interval and, if others, of the last.

    ``only``: the names to say; None: all.
    """
    try:
        first, last = (dict(flat(present(params, time))) for time in (start, max(start, stop - 1)))
    except SpaceError:
        return whole(params)
    words = [
        f"{name}={scalar(value)}" + (f" -> {scalar(last[name])}" if last.get(name, value) != value else "")
        for name, value in first.items()
        if only is None or name in only
    ]
    return cut(" ".join(words), _LONGEST)


def whole(params: Mapping[str, Any]) -> str:
    """Return "lr=exponential(0.1, gamma=0.9) batch_size=32": the values with sequences as they were written."""
    return cut(as_words(params), _LONGEST)


def ending(ways: list[TrialPath], metric: str) -> str:
    """Return a line for each trial that ends at a place: state, value and configuration."""
    lines = []
    for way in ways[:4]:
        value = "" if way.value is None else f", {metric} {number(way.value)}"
        lines.append(
            f"{trial_name(way.trial)}: {way.state.value.lower()} at {way.reached:,}{value}; {whole(way.params)}"
        )
    if len(ways) > 4:
        lines.append(f"and {len(ways) - 4:,} more")
    return "\n".join(lines)
