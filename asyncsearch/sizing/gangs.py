"""Gangs: several workers that train one trial together, data-parallel. Pure."""

from __future__ import annotations

import msgspec

from asyncsearch.errors import UsageError
from asyncsearch.sizing.autoscale import Autoscale


class Gang(msgspec.Struct, frozen=True):
    """How many workers train a trial together; each of them is a rank, from 0."""

    size: int
    """Workers of a trial, from 1."""
    min_size: int | None = None
    """Workers with which a trial goes on while a lost one is replaced, from 1 to ``size``; None if it waits for all."""
    autoscale: Autoscale | None = None
    """When a trial gets more than ``size`` workers; None if never."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            UsageError: one is out of its range.
        """
        if not _is_number(self.size):
            raise UsageError(
                f"workers_per_trial={self.size!r} is no number of workers: write an integer from 1, or "
                "Gang(size=4, min_size=2)."
            )
        if self.min_size is not None and not (_is_number(self.min_size) and self.min_size <= self.size):
            raise UsageError(
                f"min_size={self.min_size!r} must be an integer from 1 to size={self.size}, or None, so that a trial "
                "waits for all of its workers."
            )
        scale = self.autoscale
        if scale is not None and scale.max_size is not None and scale.max_size < self.size:
            raise UsageError(
                f"max_size={scale.max_size} is below the {self.size} workers that each trial gets: raise it, or lower "
                "workers_per_trial."
            )


class GangCounts(msgspec.Struct, frozen=True):
    """The workers of a study, as the size of the next gang depends on them."""

    idle: int
    present: int
    """Workers that are idle, train, or start for the first time; one that is started again may never come."""
    in_small: int
    """Workers in gangs of less than the full size."""


def gang_of(workers_per_trial: int | Gang | None, autoscale: Autoscale | None = None) -> Gang | None:
    """Return the gang for which ``Study(workers_per_trial=, autoscale=)`` asks; None if each trial has one worker.

    Raises:
        UsageError: one is of another kind, or breaks its rule.
    """
    if autoscale is not None and not isinstance(autoscale, Autoscale):
        raise UsageError(
            f"autoscale={autoscale!r} says no efficiency: write autoscale=Autoscale(efficiency=0.75), or leave it out."
        )
    asked = 1 if workers_per_trial is None else workers_per_trial
    gang = asked if isinstance(asked, Gang) else Gang(asked)
    if autoscale is not None:
        if gang.autoscale is not None:
            raise UsageError("autoscale= and Gang(autoscale=) say the same thing twice: leave out one of the two.")
        gang = Gang(gang.size, gang.min_size, autoscale)
    return gang if gang.size > 1 or gang.autoscale is not None else None


def size_now(gang: Gang, counts: GangCounts) -> int:
    """Return how many of the idle workers the next gang gets; 0 if it waits for more.

    A gang is smaller than asked for only where the workers that are present cannot make up another full one, so that a
    full one is never put off for ever by small ones.
    """
    if counts.idle >= gang.size:
        return gang.size
    left = min(counts.idle, counts.present % gang.size - counts.in_small)
    return left if gang.min_size is not None and left >= gang.min_size else 0


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
