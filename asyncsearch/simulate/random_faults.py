"""What happens to work by chance. Pure: all of it is a function of a seed and the number of a lease."""

from __future__ import annotations

import math
from statistics import NormalDist

import msgspec

from asyncsearch.arguments import count_of, finite_number, not_negative
from asyncsearch.errors import UsageError
from asyncsearch.randomness import generator

_BLOCK = 1024
_NORMAL = NormalDist()


class Chance(msgspec.Struct, frozen=True, kw_only=True):
    """Stragglers and dropped work, as in appendix A.1 of the ASHA paper.

    Raises:
        UsageError: ``spread`` is negative or not finite, ``drop`` is no probability below 1, or
            ``seed`` is no integer from 0.
    """

    spread: float = 0.0
    """Standard deviation of z: each piece of work takes ``1 + |z|`` times as long as the workload says."""
    drop: float = 0.0
    """Probability that work which is being trained is lost within a second; its worker is launched again."""
    seed: int = 0

    def __post_init__(self) -> None:
        not_negative("spread", self.spread)
        count_of("seed", self.seed)
        if not 0 <= finite_number("drop", self.drop) < 1:
            raise UsageError(
                f"drop={self.drop!r} is a probability a second: write a number from 0 to below 1, e.g. 0.01."
            )


class Draws:
    """What chance brings to each lease. Drawn in blocks: a generator for each lease would cost more than the engine."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._block = -1
        self._drawn: list[float] = []

    def slowness(self, lease: int) -> float:
        """Return by how much longer the work of a lease takes, from 1."""
        if not self._chance.spread:
            return 1.0
        # 1 - u lies in (0, 1], and only its upper half is used: |z| of a normal z.
        return 1.0 - self._chance.spread * _NORMAL.inv_cdf(max((1.0 - self._uniform(lease, 0)) / 2, 1e-300))

    def lost_after_s(self, lease: int) -> float:
        """Return after how many seconds of training the work of a lease is lost; infinity: never."""
        if not self._chance.drop:
            return math.inf
        return math.log(1.0 - self._uniform(lease, 1)) / math.log(1.0 - self._chance.drop)

    def _uniform(self, lease: int, which: int) -> float:
        """Return a number from 0 to below 1."""
        block, place = divmod(lease, _BLOCK)
        if block != self._block:
            self._block = block
            self._drawn = generator(self._chance.seed, "simulate.chance", block).random(2 * _BLOCK).tolist()
        return self._drawn[2 * place + which]
