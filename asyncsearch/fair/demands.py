"""What a study asks of a cluster, and what its part of it is. Pure."""

from __future__ import annotations

from fractions import Fraction

import msgspec

from asyncsearch.arguments import integer_of, weight_of, workers_of
from asyncsearch.fair.gang_sizes import GangSizes

_ALONE = GangSizes()


class Demand(msgspec.Struct, frozen=True):
    """What a study asks of the cluster.

    Raises:
        UsageError: the weight is not from 1e-6 to 1e6, the limit is below 1, or the priority is no integer.
    """

    study: str
    workers: int
    """How many workers it could use now, from 0."""
    weight: float = 1.0
    """Studies of one priority get workers in this proportion; from 1e-6 to 1e6."""
    max_workers: int | None = None
    """The most that it may have, from 1; None: no limit."""
    priority: int = 0
    """Studies of a higher one are filled first."""
    sizes: GangSizes = _ALONE
    """How many workers each of its trials needs."""

    def __post_init__(self) -> None:
        weight_of("weight", self.weight)
        integer_of("priority", self.priority)
        if self.max_workers is not None:
            workers_of("max_workers", self.max_workers)

    @property
    def limit(self) -> int:
        """The most that it can use and may have."""
        most = self.workers if self.max_workers is None else min(self.workers, self.max_workers)
        return self.sizes.usable(most)


class Turn(msgspec.Struct, frozen=True):
    """What decides whether it is a study's turn to have its share rounded up."""

    lag: float = 0.0
    """Seconds of workers that it should have had and has not."""
    share: int = 0
    """What it may have until now."""
    bonus: float = 0.0
    """By how much others must lag more to take from it what it has."""


class FairPart(msgspec.Struct):
    """A study's part of the cluster."""

    demand: Demand
    rate: Fraction
    """Its exact fair share, in workers; a part of a worker is a part of its time."""
    workers: int
    """The whole workers that it is to have; at first those that it can use of ``rate``."""
    limit: int
    """The most that it can use."""
    turn: Turn
    floor: int = 0
    """The most workers that it can use of ``rate``."""
    is_large: bool = False
    """Whether others must have less than their own for its share to be rounded up."""

    @property
    def rise(self) -> float:
        """Who has the highest is rounded up first."""
        return self.turn.lag + (self.turn.bonus if self.turn.share > self.rate > 0 else 0.0)

    @property
    def keep(self) -> float:
        """Who has a higher ``rise`` may take what is its own."""
        return self.turn.lag + (self.turn.bonus if self.turn.share >= self.floor else 0.0)

    @property
    def missing(self) -> int:
        """How many more workers would round its share up; 0: it has it."""
        return self.demand.sizes.above(self.workers) - self.workers if self.workers < self.rate else 0

    @property
    def level(self) -> float:
        """What it is to have, for its weight."""
        return self.workers / self.demand.weight
