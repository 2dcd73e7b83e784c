"""Which numbers of workers a study can use whose trials train on several of them. Pure."""

from __future__ import annotations

import msgspec


class GangSizes(msgspec.Struct, frozen=True):
    """How many workers a trial of a study trains on; see ``sizing.gangs``."""

    size: int = 1
    """Workers of a trial, from 1."""
    min_size: int | None = None
    """Workers with which one trial may train while there are no more, from 1 to ``size``; None: ``size``."""

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
