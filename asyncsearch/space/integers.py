"""Domains of integers: ``randint`` and ``lograndint``; both bounds are included.

Rule 1: pure; all randomness comes from the generator that ``sample`` is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asyncsearch.checked_calls import answering
from asyncsearch.errors import SpaceError
from asyncsearch.randomness import below, step_at
from asyncsearch.space.domains import Domain
from asyncsearch.space.parameter_values import integer
from asyncsearch.space.spacing import Numbers, distinct, log_between, shares

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, repr=False)
class RandInt(Numbers):
    """Integers from ``low`` to ``high``, both included, each equally likely."""

    kind = "randint"
    parse = staticmethod(integer)
    noun = "an integer"
    low: int
    high: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low > self.high:
            raise self._bounds_error("not be above")

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    def sample(self, generator: np.random.Generator) -> int:
        return self.low + below(generator, self.size)

    def at_quantile(self, share: float) -> int:
        return self.low + step_at(share, self.size)

    def grid(self, points: int | None) -> Sequence[int]:
        if points is None or points >= self.size:
            return range(self.low, self.high + 1)
        return self._spaced(points)

    def _spaced(self, points: int) -> Sequence[int]:
        return distinct(self.low + round((self.size - 1) * share) for share in shares(points))


@dataclass(frozen=True, repr=False)
class LogRandInt(RandInt):
    """Integers from ``low`` to ``high``, both included, k with a probability of about 1 / k."""

    kind = "lograndint"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low < 1:
            raise SpaceError(f"{self.call()}: low must be 1 or more to have a logarithm; write 1.")

    sample = Domain.sample

    def at_quantile(self, share: float) -> int:
        # Half a step beyond both bounds, so that they get their full share.
        return self._nearest(log_between(self.low - 0.5, self.high + 0.5, share))

    def _spaced(self, points: int) -> Sequence[int]:
        return distinct(self._nearest(log_between(self.low, self.high, float(share))) for share in shares(points))

    def _nearest(self, value: float) -> int:
        return max(self.low, min(round(value), self.high))


@answering("randint", "randint(1, 4)")
def randint(low: int, high: int) -> RandInt:
    """Return a domain of the integers from ``low`` to ``high``, both included, each equally likely.

    Raises:
        SpaceError: a bound is not an integer of 64 bits, or low > high.
    """
    return RandInt(low, high)


@answering("lograndint", "lograndint(1, 1024)")
def lograndint(low: int, high: int) -> LogRandInt:
    """Return a domain of the integers from ``low`` to ``high``, both included, k with a probability of about 1 / k.

    Raises:
        SpaceError: a bound is not an integer of 64 bits, low < 1, or low > high.
    """
    return LogRandInt(low, high)
