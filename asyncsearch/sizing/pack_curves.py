"""How much trainings gain by each other in a pack, and what one of them takes alone. Pure.

A time of a pack is the time of all its lanes. Read as the time of one training, it is too long by a factor of up to
the number of lanes: ``units_alone`` is that factor.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping


def speedup_at(curve: Mapping[int, float], lanes: int) -> float:
    """Return how many times as much a pack trains in the same time as its lanes one after another.

    Between two numbers of lanes of the curve it is interpolated, and beyond the last one constant; one lane has 1.
    """
    known = sorted({1: 1.0, **curve}.items())
    index = bisect_right([at for at, _ in known], lanes)
    low_at, low = known[index - 1]
    if index == len(known):
        return low
    high_at, high = known[index]
    return low + (high - low) * (lanes - low_at) / (high_at - low_at)


def units_alone(curve: Mapping[int, float], lanes: int) -> float:
    """Return how many units one training trains alone while a pack trains one unit of each of its lanes."""
    return lanes / speedup_at(curve, lanes)


def curve_of(seconds: Mapping[int, float]) -> dict[int, float]:
    """Return the curve of measured times: lanes -> seconds of a unit of all; empty: none of one training alone.

    Times of one training alone, and of no others, say nothing of packs; their curve is empty, too.
    """
    alone = seconds.get(1)
    if alone is None or len(seconds) < 2:
        return {}
    return {lanes: lanes * alone / spent for lanes, spent in sorted(seconds.items()) if spent > 0}
