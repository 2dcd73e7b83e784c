"""Which bracket of Hyperband the next trial belongs to. Pure: it follows from the number of trials in each."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol

_SHORT = 10_000
"""The order of a round of up to this many trials is kept."""


class BracketAllocation(Protocol):
    """A rule that assigns trials to brackets."""

    def next_bracket(self, counts: Sequence[int]) -> int:
        """Return the index of the bracket of the next trial.

        Args:
            counts: How many trials each bracket has, all of them by this rule.
        """
        ...

    def split(self, num_trials: int) -> list[int]:
        """Return how many of the first ``num_trials`` trials each bracket has."""
        ...


class Shares:
    """Every bracket has the same budget: a trial of k rungs costs about k·R/ηᵏ⁻¹, so its share is ∝ ηᵏ⁻¹/k.

    The next trial goes to the bracket that is furthest behind its share; in a tie to the one with more rungs. So no
    bracket is ever a whole trial ahead of its share. All weights are integers, so nothing is rounded.
    ``rung_counts`` has k of each bracket, descending.
    """

    def __init__(self, rung_counts: Sequence[int], reduction_factor: int) -> None:
        whole = math.lcm(*rung_counts)
        weights = [reduction_factor ** (rungs - 1) * (whole // rungs) for rungs in rung_counts]
        common = math.gcd(*weights)
        self.weights = tuple(weight // common for weight in weights)
        self.total = sum(self.weights)
        self._round = self._order() if self.total <= _SHORT else []

    def next_bracket(self, counts: Sequence[int]) -> int:
        return self._round[sum(counts) % self.total] if self._round else self._furthest_behind(counts)

    def split(self, num_trials: int) -> list[int]:
        rounds, rest = divmod(num_trials, self.total)  # after each round no bracket is ahead or behind
        counts = [0] * len(self.weights)
        for _ in range(rest):
            counts[self.next_bracket(counts)] += 1
        return [weight * rounds + count for weight, count in zip(self.weights, counts, strict=True)]

    def _furthest_behind(self, counts: Sequence[int]) -> int:
        number = sum(counts) + 1
        # Products of integers: with shares as floats, rounding would decide ties.
        behind = [weight * number - self.total * count for weight, count in zip(self.weights, counts, strict=True)]
        return behind.index(max(behind))

    def _order(self) -> list[int]:
        """Return the brackets of the trials of one round; all rounds are the same."""
        order: list[int] = []
        counts = [0] * len(self.weights)
        for _ in range(self.total):
            order.append(self._furthest_behind(counts))
            counts[order[-1]] += 1
        return order


class Rounds:
    """One bracket is filled after the other, in turn, with as many trials in a row as ``sizes`` says."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self.total = sum(sizes)
        self._ends = list(accumulate(sizes))

    def next_bracket(self, counts: Sequence[int]) -> int:
        return bisect_right(self._ends, sum(counts) % self.total)

    def split(self, num_trials: int) -> list[int]:
        rounds, rest = divmod(num_trials, self.total)
        counts = []
        for size in self.sizes:
            counts.append(size * rounds + min(rest, size))
            rest -= min(rest, size)
        return counts


def bracket_sizes(rung_counts: Sequence[int], reduction_factor: int) -> tuple[int, ...]:
    """Return the sizes of Li et al. 2018, Algorithm 1: ⌈(s_max+1)/(s+1) · ηˢ⌉ for a bracket of s+1 rungs.

    s_max + 1 is the most rungs that any of these brackets has: so all cost about the same, and the largest one brings
    one trial to its end.
    """
    most = max(rung_counts)
    return tuple(-(-most * reduction_factor ** (rungs - 1) // rungs) for rungs in rung_counts)
