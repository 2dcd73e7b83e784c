"""Fair shares of a cluster's workers, by water-filling over what each study can use. Pure.

Workers are poured into the studies of the highest priority, each filled in proportion to its weight, until it has as
many as it can use; what is left goes to the next priority. So shares are max-min fair: a study gets more only of
workers that no study with less for its weight could use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import groupby

import msgspec

from asyncsearch.arguments import above_zero, integer_of, positive

_NO_LAGS: Mapping[str, float] = {}


class Demand(msgspec.Struct, frozen=True):
    """What a study asks of the cluster.

    Raises:
        UsageError: the weight is not positive and finite, the limit is below 1, or the priority is no integer.
    """

    study: str
    workers: int
    """How many workers it could use now, from 0."""
    weight: float = 1.0
    """Studies of one priority get workers in this proportion; positive and finite."""
    max_workers: int | None = None
    """The most that it may have, from 1; None: no limit."""
    priority: int = 0
    """Studies of a higher one are filled first."""

    def __post_init__(self) -> None:
        above_zero("weight", self.weight)
        integer_of("priority", self.priority)
        if self.max_workers is not None:
            positive("max_workers", self.max_workers)

    @property
    def limit(self) -> int:
        """The most that it can use and may have."""
        return self.workers if self.max_workers is None else min(self.workers, self.max_workers)


def fair_rates(demands: Collection[Demand], workers: int) -> dict[str, Fraction]:
    """Return the exact fair share of each study, in workers; a part of a worker is a part of its time."""
    rates: dict[str, Fraction] = {}
    left = Fraction(workers)
    for group in _by_priority(demands):
        rates |= _filled(group, left)
        left -= sum(rates[demand.study] for demand in group)
    return rates


def shares(
    demands: Collection[Demand],
    workers: int,
    *,
    lags: Mapping[str, float] = _NO_LAGS,
) -> dict[str, int]:
    """Return whole workers for each study: its fair share, rounded down or up.

    Args:
        demands: one of each study.
        workers: of the cluster, from 0.
        lags: which studies come first where a share is rounded up: those with the highest number. Among equal ones
            the largest part of a worker comes first, then the order of ``demands``.
    """
    rates = fair_rates(demands, workers)
    found: dict[str, int] = {}
    for group in _by_priority(demands):
        whole = {demand.study: int(rates[demand.study]) for demand in group}
        spare = int(sum(rates[demand.study] for demand in group)) - sum(whole.values())
        parts = [demand.study for demand in group if rates[demand.study] > whole[demand.study]]
        parts.sort(key=lambda study: (-lags.get(study, 0.0), whole[study] - rates[study]))
        for study in parts[:spare]:
            whole[study] += 1
        found |= whole
    return found


def _by_priority(demands: Collection[Demand]) -> Iterator[Sequence[Demand]]:
    ordered = sorted(demands, key=lambda demand: -demand.priority)
    for _, group in groupby(ordered, key=lambda demand: demand.priority):
        yield list(group)


def _filled(group: Sequence[Demand], workers: Fraction) -> dict[str, Fraction]:
    """Pour workers into studies in proportion to their weights; the one that is full first is settled first."""
    weights = {demand.study: Fraction(demand.weight) for demand in group}
    open_weight, rates = sum(weights.values(), Fraction()), {}
    for demand in sorted(group, key=lambda demand: demand.limit / weights[demand.study]):
        weight = weights[demand.study]
        rates[demand.study] = min(Fraction(demand.limit), workers * weight / open_weight)
        workers -= rates[demand.study]
        open_weight -= weight
    return rates
