"""How many trainings to time together next, and which number is the fastest. Pure: times are arguments.

The number doubles while throughput rises, in the pack that trains already; in a short search the first pack leaps from
one alone to all, since each size that is timed by itself is a call more. Two together may train slower than one alone,
and four or eight faster all the same, so the trend begins at two. Each training that is timed trains a unit that it
needs anyway, so timing costs only what a number takes longer than the fastest one would. What it may cost is estimated
before, and must not exceed 2 s or 1 % of the search.

How many have memory enough together follows from what one and two take, as in Hydro: each further one takes as much as
the second.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping

from asyncsearch.events import PackMemory

FIRST_COUNTS = (1, 2, 4, 8)
"""How many trainings together are timed first, in the first unit of one pack."""
MANY_UNITS = 800
"""Units of a search from which on the first pack times all of these: that takes 5 calls more than to train at once."""
SHORT_FIRST = 25
"""Lanes of the first pack of a shorter search: one alone, and 24 at once or in two halves. With fewer, more trials
begin only after the calls that time, and what the longest of them lack is trained by few."""
WARM_UP = 3
"""Trainings that a process trains first, one alone and two together, since that takes longer than ever after."""
GAIN = 1.05
"""Twice as many together must do so much more in the same time to be worth it: what is measured varies."""
PACK_GAIN = 1.15
"""A pack must train so much more than one training alone: what it seems to gain below that is often not there."""
FIRST_LOSS = 1.0
"""How much longer than alone two together are taken to train at most, as a share of the time alone."""
LOSS = 0.25
"""How much longer than half as many together a larger number is taken to train at most, as a share of their time."""
LEAST_BUDGET_S = 2.0
"""The cost of timing that is allowed, however short the search is."""
SHARE = 0.01
"""The share of the search that timing may cost."""
WAIT_SHARE, MOST_WAIT_S = 0.1, 0.05
"""The most that a pack waits for joiners in place of lanes that have left, as a part of a unit, and in seconds."""
MEMORY_SHARE = 0.9
"""The share of the limit that a pack is to take at most: what is predicted varies, and others take memory too."""


def joiner_wait_s(unit_s: float) -> float:
    """Return how long a pack waits at most, between units of so many seconds, for joiners in place of who has left."""
    return min(MOST_WAIT_S, WAIT_SHARE * unit_s)


def fastest(seconds: Mapping[int, float]) -> int:
    """Return the number with the highest throughput; of two that hardly differ the smaller one. 1 if nothing is known.

    Args:
        seconds: trainings together -> seconds of a unit of all of them.
    """
    best = 1
    for count in sorted(seconds):
        gain = PACK_GAIN if best == 1 else GAIN
        if best not in seconds or count / seconds[count] > gain * best / seconds[best]:
            best = count
    return best


def is_rising(seconds: Mapping[int, float]) -> bool:
    """Return whether the largest number trains more in the same time than the one before it, beginning with two."""
    packs = sorted(count for count in seconds if count > 1)
    if len(packs) < 2:
        return True
    half, most = packs[-2:]
    return most / seconds[most] > GAIN * half / seconds[half]


def spent_s(seconds: Mapping[int, float]) -> float:
    """Return the cost of timing, in seconds: beyond those that the fastest smaller number would have taken."""
    cost, least_s = 0.0, math.inf
    for count in sorted(seconds):
        cost += max(0.0, seconds[count] - count * least_s)
        least_s = min(least_s, seconds[count] / count)
    return cost


def at_risk_s(seconds: Mapping[int, float], count: int) -> float:
    """Return the highest cost of timing so many together, in seconds."""
    most = max(seconds)
    doublings = max(0.0, math.log2(count / max(2, most)))
    slower = (1.0 if most > 1 else 1 + FIRST_LOSS) * math.pow(1 + LOSS, doublings)
    slowest_s = seconds[most] / most * slower
    return count * max(0.0, slowest_s - min(spent / lanes for lanes, spent in seconds.items()))


def budget_s(seconds: Mapping[int, float], units_left: float) -> float:
    """Return the most seconds for timing; ``units_left`` of training take as long as the known throughput says."""
    best = fastest(seconds)
    return max(LEAST_BUDGET_S, SHARE * units_left * seconds[best] / best) if seconds else LEAST_BUDGET_S


def is_worth_timing(seconds: Mapping[int, float], count: int, units_left: float = 0.0) -> bool:
    """Return whether a larger number is to be timed; one training alone always is."""
    if not seconds:
        return True
    return is_rising(seconds) and spent_s(seconds) + at_risk_s(seconds, count) <= budget_s(seconds, units_left)


def most_worth(seconds: Mapping[int, float], most: int) -> int:
    """Return a number up to ``most``, halved while it is not worth timing next; 0 if none is."""
    while seconds and most > max(seconds) and not is_worth_timing(seconds, most):
        most //= 2
    return most if not seconds or most > max(seconds) else 0


def group_size(seconds: Mapping[int, float], lanes: int) -> int:
    """Return how many of so many lanes train together: all, where none of their sizes was found too large.

    ``seconds``: number that trained together -> seconds of a unit of all of them; empty if nothing was timed.
    """
    if not seconds:
        return lanes
    best, most = fastest(seconds), max(seconds)
    return lanes if best == most and lanes < 2 * most else best


class GroupSizes:
    """The sizes of the groups in which the lanes of one pack train, by what was timed in it; none for all together."""

    def __init__(self) -> None:
        self.seconds: dict[int, float] = {}
        """Trainings together -> seconds of a unit of all of them, in this pack."""
        self._again = 0
        """How many are timed once more, since their first time may be of preparing for that number; 0 for none."""
        self._trained = 0
        """Units that the lanes have trained in all, of which timing may cost a share."""

    def note(self, count: int, seconds: float) -> None:
        """Take in a measured time."""
        self._again = 0 if count in self.seconds else count
        self.seconds[count] = min(seconds, self.seconds.get(count, seconds))

    def to_time(self, lanes: int) -> int:
        """Note a unit of so many lanes; return how many of them are to be timed together in it, 0 for none."""
        self._trained += lanes
        if not self.seconds:
            return 0
        if lanes == self._again:
            return lanes
        most = max(self.seconds)
        count = lanes if lanes < 4 * most else 2 * most
        return count if lanes >= 2 * most and is_worth_timing(self.seconds, count, self._trained) else 0

    def of(self, lanes: int) -> int:
        """Return how many of so many lanes train together."""
        return group_size(self.seconds, lanes)


def most_that_fit(memory: PackMemory) -> int:
    """Return how many trainings have memory enough together, as predicted; at least one."""
    spare = int(MEMORY_SHARE * memory.limit) - memory.one
    return 1 + max(0, spare) // max(1, memory.each)


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
    """Return the curve of measured times: lanes -> seconds of a unit of all; empty without one of a training alone.

    Times of one training alone, and of no others, say nothing of packs; their curve is empty, too.
    """
    alone = seconds.get(1)
    if alone is None or len(seconds) < 2:
        return {}
    return {lanes: lanes * alone / spent for lanes, spent in sorted(seconds.items()) if spent > 0}
