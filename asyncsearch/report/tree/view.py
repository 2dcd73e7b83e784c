"""The stage tree as a value: nodes, their intervals and the trials that train through them; and sentences about it."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from asyncsearch.errors import SpaceError
from asyncsearch.ids import NodeKey, PathStep, TrialId, trial_name
from asyncsearch.report.formatting import cut, in_place_text, many, number
from asyncsearch.sequences import present
from asyncsearch.sequences.params import flat, scalar
from asyncsearch.sequences.params import params as as_words
from asyncsearch.trial import Params, TrialState

MOST_NAMED = 6
"""How many trials of an interval are named; the others are counted."""


class Kind(enum.Enum):
    """The trainer of an interval, past or future."""

    TRAINED = "trained, for one trial"
    SHARED = "trained once, for several trials"
    ELSEWHERE = "trained by another study"
    RUNNING = "running"
    WAITING = "waiting"
    CONTINUED = "to be continued"
    """Left to train, and no run does it now."""


class TrialPath(msgspec.Struct):
    """A trial, and the nodes that it trains through."""

    trial: TrialId
    params: Params
    steps: tuple[PathStep, ...]
    end: int
    """Its target; once it is finished, the resource that it has reached."""
    state: TrialState = TrialState.WAITING
    words: str = ""
    """Its state as people read it."""
    may_go_on: bool = True
    """Whether it may train further, as people read it: a search that is over promotes no paused trial."""
    reached: int = 0
    value: float | None = None
    """The last finite value of the metric at or before ``reached``."""
    in_place: tuple[int, ...] = ()
    """Resources at which it was promoted and went on in place."""


class Interval(msgspec.Struct, frozen=True):
    """A part of a node with the same readers and the same kind throughout."""

    start: int
    stop: int
    kind: Kind
    count: int
    """How many trials read it."""
    named: tuple[TrialId, ...]
    """The first ``MOST_NAMED`` of them."""


class TreeNode(msgspec.Struct):
    """A node of the plan: an interval in which no hyper-parameter changes its formula."""

    start: int
    params: Params
    """Of the first trial in it."""
    parent: NodeKey | None
    children: list[NodeKey] = []
    done: int = 0
    """Resource up to which it has been trained, here or by another study."""
    elsewhere: list[tuple[int, int]] = []
    """The trained parts that only other studies have trained, ascending."""
    values: list[tuple[int, float]] = []
    ends: list[TrialPath] = []
    """The trials that end in it."""
    branched: list[tuple[int, TrialId]] = []
    """Resource and id of the trials that left it and continued with the weights of others."""
    intervals: list[Interval] = []
    """From its start to its end, without gaps."""


class TreeView(msgspec.Struct, frozen=True):
    """All nodes, and sums over them."""

    nodes: dict[NodeKey, TreeNode]
    """A parent comes before its children."""
    roots: list[NodeKey]
    paths: list[TrialPath]
    requested: int
    """Units that the trials would train, had each trained alone."""
    trained: int
    """Units that were trained here, repetitions after losses included."""
    elsewhere: int
    """Units that other studies trained instead."""
    served: int
    """Units that the trials have reached, added up over all trials."""
    horizon: int
    """The resource where the tree ends, at least 1."""

    @property
    def is_shared(self) -> bool:
        """Whether a trial trains on from what another one has trained, here or in another study."""
        kinds = [(interval.count, interval.kind) for node in self.nodes.values() for interval in node.intervals]
        return any(count > 1 or kind is Kind.ELSEWHERE for count, kind in kinds)


_LONGEST = 400
_MOST_ALONE = 12


def savings(tree: TreeView) -> str:
    """Return "448 trials, 53,760 units asked for, 21,960 trained: each unit serves 2.45 trials".

    Units that another study has trained are counted apart: "1,960 trained and 20,000 taken from other studies".
    """
    head = f"{many(len(tree.paths), 'trial')}, {many(tree.requested, 'unit')} of training asked for"
    distinct = tree.trained + tree.elsewhere
    if not distinct:
        return f"{head}, none trained yet"
    so_far = " so far" if tree.served < tree.requested else ""
    taken = f" and {tree.elsewhere:,} taken from other studies" if tree.elsewhere else ""
    served = tree.served / distinct
    noun = "trial" if f"{served:.2f}" == "1.00" else "trials"
    # Below one, units were trained again: a study without sharing, or one that lost training.
    gain = f": each unit serves {served:.2f} {noun}" if served >= 0.995 else ""
    return f"{head}, {tree.trained:,} trained{taken}{so_far}{gain}"


def nothing_shared(tree: TreeView) -> str:
    """Return why there is no tree to look at, if there is none: many trials, none of which shares training; else ""."""
    if tree.is_shared or len(tree.paths) <= _MOST_ALONE:
        return ""
    return (
        "No two of these trials have a beginning in common, so each trains alone: there is no tree to draw. "
        "plot_history(study) and plot_rungs(study) show them."
    )


def reader_names(interval: Interval) -> str:
    """Return "trial-1, trial-2 and 10 more"."""
    names = ", ".join(trial_name(trial) for trial in interval.named)
    more = interval.count - len(interval.named)
    return f"{names} and {more:,} more" if more else names or "nobody any more"


def branched_text(node: TreeNode) -> str:
    """Return "left by trial-3 at 5, trial-4 at 10": the trials that continued with the weights of others; or ""."""
    words = [f"{trial_name(trial)} at {at:,}" for at, trial in node.branched[:MOST_NAMED]]
    more = len(node.branched) - len(words)
    return f"left by {', '.join(words)}" + (f" and {more:,} more" if more else "") if words else ""


def outcome_text(interval: Interval) -> str:
    """Return "trained once, for 12 trials"."""
    if interval.kind is Kind.TRAINED:
        return "trained"
    done = "trained once" if interval.kind is Kind.SHARED else interval.kind.value
    return f"{done}, for {many(interval.count, 'trial')}"


def varying(tree: TreeView) -> set[str]:
    """Return the names of the values in which trials differ; all names, if they differ in none."""
    seen: dict[str, set[str]] = {}
    for path in tree.paths:
        for name, value in flat(path.params):
            seen.setdefault(name, set()).add(str(value))
    return {name for name, texts in seen.items() if len(texts) > 1} or set(seen)


def values(params: Mapping[str, Any], start: int, stop: int, only: Collection[str] | None = None) -> str:
    """Return "lr=0.1 -> 0.01 batch_size=32": the values of the first unit of an interval and, if they differ, the last.

    ``only``: the names to include; None means all.
    """
    try:
        first, last = (dict(flat(present(params, time))) for time in (start, max(start, stop - 1)))
    except SpaceError:
        return as_written(params)
    words = [
        f"{name}={scalar(value)}" + (f" -> {scalar(last[name])}" if last.get(name, value) != value else "")
        for name, value in first.items()
        if only is None or name in only
    ]
    return cut(" ".join(words), _LONGEST)


def as_written(params: Mapping[str, Any]) -> str:
    """Return "lr=exponential(0.1, gamma=0.9) batch_size=32": the values, with sequences as the user wrote them."""
    return cut(as_words(params), _LONGEST)


def ends_text(paths: list[TrialPath], metric: str) -> str:
    """Return a line for each of some trials: state, value and configuration."""
    lines = []
    for path in paths[:4]:
        value = "" if path.value is None else f", {metric} {number(path.value)}"
        state = f"{path.words} at {path.reached:,}{in_place_text(path.in_place)}"
        lines.append(f"{trial_name(path.trial)}: {state}{value}; {as_written(path.params)}")
    if len(paths) > 4:
        lines.append(f"and {len(paths) - 4:,} more")
    return "\n".join(lines)
