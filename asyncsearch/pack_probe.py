"""How many trainings to time together next, and which number is the fastest. Pure: times are arguments.

The number doubles while throughput rises. Each training that is timed trains a unit that it needs anyway, so timing
costs only what a number that proves too large takes longer than the fastest one would. Throughput that falls ends the
doubling, so that is paid once. It is taken to be at most a quarter of the time of the unit, and must not exceed 2 s or
1 % of the search.
"""

from __future__ import annotations

from collections.abc import Mapping

FIRST_COUNTS = (1, 2, 4, 8)
"""How many trainings together are timed first, in the first unit of one pack."""
WARM_UP = 3
"""Trainings that a process trains first without timing them, one alone and two together: that takes longer than ever
after."""
GAIN = 1.05
"""Twice as many together must do so much more in the same time to be worth it: what is measured varies."""
LOSS = 0.25
"""The share of a unit's time that a number which is too large is taken to cost."""
LEAST_BUDGET_S = 2.0
"""What timing may cost, however short the search is."""
SHARE = 0.01
"""The share of the search that timing may cost."""


def fastest(seconds: Mapping[int, float]) -> int:
    """Return the number with the highest throughput; of two that hardly differ the smaller one. 1: nothing is known.

    Args:
        seconds: trainings together -> seconds of a unit of all of them.
    """
    best = 1
    for count in sorted(seconds):
        if best not in seconds or count / seconds[count] > GAIN * best / seconds[best]:
            best = count
    return best


def is_rising(seconds: Mapping[int, float]) -> bool:
    """Return whether the largest number trains more than any smaller one in the same time."""
    return fastest(seconds) == max(seconds, default=1)


def at_risk_s(seconds: Mapping[int, float], count: int) -> float:
    """Return what timing so many together may cost, in seconds."""
    best = fastest(seconds)
    return LOSS * count * seconds[best] / best


def budget_s(seconds: Mapping[int, float], units_left: float) -> float:
    """Return what timing may cost, in seconds; ``units_left``: of training, at the throughput that is known."""
    best = fastest(seconds)
    return max(LEAST_BUDGET_S, SHARE * units_left * seconds[best] / best) if seconds else LEAST_BUDGET_S


def is_worth_timing(seconds: Mapping[int, float], count: int, units_left: float = 0.0) -> bool:
    """Return whether a larger number is to be timed; one training alone always is."""
    if not seconds:
        return True
    return is_rising(seconds) and at_risk_s(seconds, count) <= budget_s(seconds, units_left)
