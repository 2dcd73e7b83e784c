"""Demands of studies for workers of a cluster, their parts of it, and the messages of the broker. Pure."""

from __future__ import annotations

from fractions import Fraction

import msgspec

from asyncsearch.arguments import integer_of, weight_of, workers_of


class GangSizes(msgspec.Struct, frozen=True):
    """How many workers a trial of a study trains on; see ``sizing.gangs``."""

    size: int = 1
    """Workers of a trial, from 1."""
    min_size: int | None = None
    """Workers with which one trial may train while there are no more, from 1 to ``size``. None means ``size``."""

    @property
    def least(self) -> int:
        """The fewest workers that are of use."""
        return self.min_size or self.size

    def usable(self, workers: int) -> int:
        """Return how many of so many workers can train, from 0: those of full gangs, and one smaller gang."""
        left = workers % self.size
        return workers if left >= self.least else workers - left

    def below(self, workers: int) -> int:
        """Return the next smaller number of workers that can train; ``workers`` is from 1."""
        return self.usable(workers - 1)

    def above(self, workers: int) -> int:
        """Return the next larger number of workers that can train."""
        more = workers + 1
        return more if self.usable(more) == more else more - more % self.size + self.least


_ALONE = GangSizes()


class Demand(msgspec.Struct, frozen=True):
    """The demand of a study for workers of the cluster.

    Raises:
        UsageError: the weight is not from 1e-6 to 1e6, the limit is below 1, or the priority is no integer.
    """

    study: str
    workers: int
    """How many workers it could use now, from 0."""
    weight: float = 1.0
    """Studies of one priority get workers in this proportion; from 1e-6 to 1e6."""
    max_workers: int | None = None
    """The most that it may have, from 1. None means no limit."""
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
    """The lag and the share of a study, which decide whether it is its turn to have its share rounded up."""

    lag: float = 0.0
    """Seconds of workers that it should have had and has not."""
    share: int = 0
    """The workers that it may have until now."""
    bonus: float = 0.0
    """By how much others must lag more to take its workers."""


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
        """Who has a higher ``rise`` may take its workers."""
        return self.turn.lag + (self.turn.bonus if self.turn.share >= self.floor else 0.0)

    @property
    def missing(self) -> int:
        """How many more workers would round its share up. 0 if it has it."""
        return self.demand.sizes.above(self.workers) - self.workers if self.workers < self.rate else 0

    @property
    def level(self) -> float:
        """The workers that it is to have, for its weight."""
        return self.workers / self.demand.weight


class StudyJoined(msgspec.Struct, frozen=True):
    """A study was begun on the cluster. It has no worker, and needs none yet."""

    study: str
    weight: float = 1.0
    max_workers: int | None = None
    priority: int = 0
    sizes: GangSizes = _ALONE
    """How many workers each of its trials needs."""


class WorkersNeeded(msgspec.Struct, frozen=True):
    """A study tells how many workers it has and needs."""

    study: str
    workers: int
    """How many it could use now, from 0."""
    held: int
    """How many are launched and have not ended, from 0."""
    share: int
    """The last share that it was told, from 0: it launches no more than these."""
    starting: int = 0
    """How many of those held have not attached yet."""


class StudyLeft(msgspec.Struct, frozen=True):
    """A study has ended, and so have its workers."""

    study: str


class TimePassed(msgspec.Struct, frozen=True):
    """The time that ``next_due`` said has come."""


BrokerFact = StudyJoined | WorkersNeeded | StudyLeft | TimePassed


class SetShare(msgspec.Struct, frozen=True):
    """Tell a study how many workers it may have from now on."""

    study: str
    workers: int
    is_urgent: bool = False
    """Whether to give workers back at the end of the present unit rather than at that of a stage."""
