"""Ranks among a million trials in microseconds, and the median of a stream of numbers in O(log n) for each. Pure.

Rule 1: trials are ordered by (score, trial id), so that equal scores are ordered too; scores are finite.
Rule 2: 16 bytes a trial. Arrays of numbers are searched several times faster than lists of pairs, which are scattered
over the memory; ``sortedcontainers`` takes 5 us and some 110 bytes a pair at a million trials.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator

from asyncsearch.ids import TrialId

RankedTrial = tuple[float, TrialId]
"""A score, where smaller is better, and its trial."""

_MOST = 1024
"""Entries in a block; a fuller one is split. Finding a block and moving its tail then cost about the same."""
_GROUP = 32
"""Blocks whose entries are counted together."""


class Ranking:
    """A sorted multiset of entries. Every operation takes O(log n + n / 32768) with a tiny constant."""

    __slots__ = ("_groups", "_highest", "_scores", "_size", "_sizes", "_trials")

    def __init__(self, entries: Iterable[RankedTrial] = ()) -> None:
        """Take entries in any order."""
        ordered = sorted(entries)
        self._size = len(ordered)
        half = _MOST // 2
        chunks = [ordered[at : at + half] for at in range(0, len(ordered), half)] or [[]]
        self._scores = [array("d", [score for score, _ in chunk]) for chunk in chunks]
        self._trials = [array("q", [trial for _, trial in chunk]) for chunk in chunks]
        self._sizes = [len(chunk) for chunk in chunks]
        self._groups = self._grouped()
        """How many entries are in each group of blocks."""
        self._highest = array("d", [chunk[-1][0] for chunk in chunks[:-1]])
        """The last score of each block except the last one."""

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[RankedTrial]:
        for scores, trials in zip(self._scores, self._trials, strict=True):
            yield from zip(scores, map(TrialId, trials), strict=True)

    def __contains__(self, entry: RankedTrial) -> bool:
        block, at = self._find(*entry)
        scores = self._scores[block]
        return at < len(scores) and scores[at] == entry[0] and self._trials[block][at] == entry[1]

    def first(self) -> RankedTrial | None:
        """Return the best entry, or None."""
        return (self._scores[0][0], TrialId(self._trials[0][0])) if self._scores[0] else None

    def add(self, score: float, trial: TrialId) -> bool:
        """Insert an entry, and return whether it is the best one."""
        block, at = self._find(score, trial)
        self._scores[block].insert(at, score)
        self._trials[block].insert(at, trial)
        self._size += 1
        self._sizes[block] += 1
        self._groups[block // _GROUP] += 1
        if self._sizes[block] > _MOST:
            self._split(block)
        return block == 0 == at

    def remove(self, score: float, trial: TrialId) -> bool:
        """Delete an entry, and return whether it was there."""
        block, at = self._find(score, trial)
        scores, trials = self._scores[block], self._trials[block]
        if at == len(scores) or scores[at] != score or trials[at] != trial:
            return False
        del scores[at], trials[at]
        self._size -= 1
        self._sizes[block] -= 1
        self._groups[block // _GROUP] -= 1
        if not scores and len(self._scores) > 1:
            del self._scores[block], self._trials[block], self._sizes[block]
            del self._highest[min(block, len(self._highest) - 1)]
            self._groups = self._grouped()
        return True

    def before(self, score: float, trial: TrialId) -> int:
        """Return how many entries are better than this one, which may be absent."""
        block, at = self._find(score, trial)
        return self._in_front(block) + at

    def below(self, score: float) -> int:
        """Return how many scores are smaller."""
        block = bisect_left(self._highest, score)
        return self._in_front(block) + bisect_left(self._scores[block], score)

    def up_to(self, score: float) -> int:
        """Return how many scores are smaller or equal."""
        block = bisect_right(self._highest, score)
        return self._in_front(block) + bisect_right(self._scores[block], score)

    def _find(self, score: float, trial: TrialId) -> tuple[int, int]:
        """Return the block of an entry and its place in it, or where it would be inserted."""
        block = bisect_left(self._highest, score)
        scores = self._scores[block]
        low = bisect_left(scores, score)
        if low < len(scores) and scores[low] != score:
            return block, low
        # Equal scores may fill several blocks; the place is in the first one whose last equal trial is not before it.
        while True:
            scores, trials = self._scores[block], self._trials[block]
            high = bisect_right(scores, score, low)
            at = bisect_left(trials, trial, low, high)
            if at < len(scores) or block == len(self._scores) - 1 or self._scores[block + 1][0] > score:
                return block, at
            block, low = block + 1, 0

    def _in_front(self, block: int) -> int:
        group = block // _GROUP
        return sum(self._groups[:group]) + sum(self._sizes[group * _GROUP : block])

    def _grouped(self) -> list[int]:
        return [sum(self._sizes[at : at + _GROUP]) for at in range(0, len(self._sizes), _GROUP)]

    def _split(self, block: int) -> None:
        scores, trials = self._scores[block], self._trials[block]
        half = len(scores) // 2
        self._scores.insert(block + 1, scores[half:])
        self._trials.insert(block + 1, trials[half:])
        del scores[half:], trials[half:]
        self._sizes[block : block + 1] = [half, len(self._scores[block + 1])]
        self._highest.insert(block, scores[-1])
        self._groups = self._grouped()


_BLOCK = 512
"""Most numbers in a block. An insertion moves half of a block, 2 KB, which costs less than finding the place."""


class RunningMedian:
    """Numbers in two sorted halves, between which the median lies. Infinities are numbers, NaN is not."""

    __slots__ = ("_high", "_low")

    def __init__(self, numbers: Iterable[float] = ()) -> None:
        ordered = sorted(numbers)
        half = (len(ordered) + 1) // 2
        self._low = _Blocks(ordered[:half])
        self._high = _Blocks(ordered[half:])

    def __len__(self) -> int:
        return self._low.size + self._high.size

    def add(self, number: float) -> None:
        """Add a number."""
        low, high = self._low, self._high
        if low.size and number > low.last():
            high.add(number)
        else:
            low.add(number)
        if low.size > high.size + 1:
            high.add(low.pop_last())
        elif high.size > low.size:
            low.add(high.pop_first())

    def median(self) -> float:
        """Return the number in the middle, or the mean of the two in the middle; there must be a number."""
        below = self._low.last()
        if self._low.size > self._high.size:
            return below
        above = self._high.first()
        # The sum of two large numbers may be infinite though their mean is not.
        mean = (below + above) / 2
        return mean if math.isfinite(mean) else below / 2 + above / 2

    def numbers(self) -> list[float]:
        """Return all numbers in order."""
        return [number for half in (self._low, self._high) for block in half.blocks for number in block]


class _Blocks:
    """Sorted numbers in short arrays, none of which is empty."""

    __slots__ = ("blocks", "size")

    def __init__(self, ordered: list[float]) -> None:
        self.size = len(ordered)
        self.blocks = [array("d", ordered[start : start + _BLOCK]) for start in range(0, len(ordered), _BLOCK)]

    def first(self) -> float:
        return self.blocks[0][0]

    def last(self) -> float:
        return self.blocks[-1][-1]

    def add(self, number: float) -> None:
        if not self.blocks:
            self.blocks.append(array("d", [number]))
            self.size += 1
            return
        place = min(bisect_left(self.blocks, number, key=_last_of), len(self.blocks) - 1)
        block = self.blocks[place]
        insort(block, number)
        self.size += 1
        if len(block) > _BLOCK:
            self.blocks[place : place + 1] = [block[: _BLOCK // 2], block[_BLOCK // 2 :]]

    def pop_first(self) -> float:
        return self._pop(0)

    def pop_last(self) -> float:
        return self._pop(-1)

    def _pop(self, end: int) -> float:
        number = self.blocks[end].pop(end)
        self.size -= 1
        if not self.blocks[end]:
            del self.blocks[end]
        return number


def _last_of(block: array[float]) -> float:
    return block[-1]
