"""The median of a stream of numbers: 8 bytes and O(log n) for each."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable

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
