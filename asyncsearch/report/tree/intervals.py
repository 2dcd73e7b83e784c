"""How a node of the tree is cut into intervals with the same readers and the same kind throughout."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator

from asyncsearch.ids import TrialId
from asyncsearch.report.tree.view import MOST_NAMED, Interval, Kind, TreeNode


def without(parts: list[tuple[int, int]], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield ascending intervals, less the part that lies between ``start`` and ``stop``."""
    for low, high in parts:
        if low < min(high, start):
            yield low, min(high, start)
        if max(low, stop) < high:
            yield max(low, stop), high


def forget_beyond(node: TreeNode, stop: int) -> None:
    """Leave out the units that other studies have trained beyond the last reader here."""
    kept = [(low, min(high, stop)) for low, high in node.elsewhere if low < stop]
    if kept != node.elsewhere:
        node.done = min(node.done, max(stop, node.elsewhere[0][0]))
        node.elsewhere = kept


def intervals(
    node: TreeNode, exits: list[tuple[int, TrialId]], busy: list[tuple[int, int]], left: Kind = Kind.WAITING
) -> Iterator[Interval]:
    """Yield the intervals of a node in order, from where trials leave it and the parts that workers are training.

    ``left``: what is left to train.
    """
    cuts = {stop for stop, _ in exits} | {node.start, node.done}
    cuts |= {cut for interval in [*busy, *node.elsewhere] for cut in interval}
    ordered = sorted(cut for cut in cuts if cut >= node.start)
    leaving = sorted(exits)
    found: list[Interval] = []
    named: list[TrialId] = []
    count = 0
    # From the end to the start: a trial reads all intervals before the one where it leaves.
    for start, stop in zip(reversed(ordered[:-1]), reversed(ordered[1:]), strict=True):
        while leaving and leaving[-1][0] >= stop:
            insort(named, leaving.pop()[1])
            del named[MOST_NAMED:]
            count += 1
        if any(low <= start and stop <= high for low, high in busy):
            kind = Kind.RUNNING
        elif any(low <= start and stop <= high for low, high in node.elsewhere):
            kind = Kind.ELSEWHERE
        elif stop <= node.done:
            kind = Kind.SHARED if count > 1 else Kind.TRAINED
        else:
            kind = left
        found.append(Interval(start, stop, kind, count, tuple(named)))
    return reversed(found)
