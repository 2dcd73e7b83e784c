"""Fair shares of a cluster's workers, by water-filling up to the demand of each study. Pure.

Workers are poured into the studies of the highest priority, each filled in proportion to its weight, until it has as
many as it can use; the rest goes to the next priority. So shares are max-min fair: a study gets more only of
workers that no study with less for its weight could use.

A share is whole, and where trials train on several workers, its gangs can use all of it. Shares that are not are
rounded down or up by turns. Where the rest is too small to round a share up at all, other studies have less
than their own while it is that study's turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import groupby

from asyncsearch.fair.demands import Demand, FairPart, Turn


def divide(demands: Collection[Demand], workers: int, turns: Mapping[str, Turn]) -> dict[str, FairPart]:
    """Return the part of each study.

    Args:
        demands: one of each study.
        workers: of the cluster, from 0.
        turns: of each study; one that is left out neither lags nor has workers.
    """
    found: dict[str, FairPart] = {}
    for group in _by_priority(demands):
        parts = _divided(group, workers, turns)
        workers -= sum(part.workers for part in parts)
        found |= {part.demand.study: part for part in parts}
    return found


def _by_priority(demands: Collection[Demand]) -> Iterator[Sequence[Demand]]:
    ordered = sorted(demands, key=lambda demand: -demand.priority)
    for _, group in groupby(ordered, key=lambda demand: demand.priority):
        yield list(group)


def _divided(group: Sequence[Demand], workers: int, turns: Mapping[str, Turn]) -> list[FairPart]:
    limits = {demand.study: min(demand.limit, demand.sizes.usable(workers)) for demand in group}
    rates = _filled(group, limits, Fraction(workers))
    parts = [
        FairPart(demand, rate, demand.sizes.usable(int(rate)), limits[demand.study], turns.get(demand.study, Turn()))
        for demand in group
        for rate in (rates[demand.study],)
    ]
    spare = workers - sum(part.workers for part in parts)
    for part in parts:
        part.floor, part.is_large = part.workers, part.missing > spare
    for part in sorted(parts, key=lambda part: (-part.rise, part.floor - part.rate)):
        spare -= _round_up(part, parts, spare)
    _pour_rest(parts, spare)
    return parts


def _filled(group: Sequence[Demand], limits: Mapping[str, int], workers: Fraction) -> dict[str, Fraction]:
    """Pour workers into studies in proportion to their weights; the one that is full first is settled first."""
    weights = {demand.study: Fraction(demand.weight) for demand in group}
    open_weight, rates = sum(weights.values(), Fraction()), {}
    for study in sorted(weights, key=lambda study: limits[study] / weights[study]):
        rates[study] = min(Fraction(limits[study]), workers * weights[study] / open_weight)
        workers -= rates[study]
        open_weight -= weights[study]
    return rates


def _round_up(part: FairPart, parts: Sequence[FairPart], spare: int) -> int:
    """Round a share up if there are workers for it; return how many of the spare ones that takes; it may free some."""
    missing = part.missing
    if not missing:
        return 0
    taken = _taken(part, parts, missing - spare) if missing > spare and part.is_large else {}
    freed = sum(other.workers - left for other, left in taken.values())
    if missing > spare + freed:
        return 0
    for other, left in taken.values():
        other.workers = left
    part.workers += missing
    return missing - freed


def _taken(part: FairPart, parts: Sequence[FairPart], short: int) -> dict[str, tuple[FairPart, int]]:
    """Return which studies that lag less could have how many workers less, so that so many are freed.

    The one that has most for its weight gives first; those that were rounded up for they lag more give nothing.
    """
    givers = {
        other.demand.study: (other, other.workers)
        for other in parts
        if other is not part and other.keep < part.rise and other.workers <= other.floor
    }

    def order(study: str) -> tuple[float, float]:
        other, left = givers[study]
        return left / other.demand.weight, -other.keep

    while short > 0 and (giving := [study for study, (_, left) in givers.items() if left]):
        other, left = givers[max(giving, key=order)]
        givers[other.demand.study] = other, other.demand.sizes.below(left)
        short -= left - other.demand.sizes.below(left)
    return givers


def _pour_rest(parts: Sequence[FairPart], spare: int) -> None:
    """Give workers that round nothing up to studies that could use them, that with least for its weight first."""
    while True:
        able = [part for part in parts if part.workers < part.limit and _next(part) - part.workers <= spare]
        if not able:
            return
        part = min(able, key=lambda part: part.level)
        spare -= _next(part) - part.workers
        part.workers = _next(part)


def _next(part: FairPart) -> int:
    return part.demand.sizes.above(part.workers)


REMEMBERED_S = 600.0
"""Seconds of one worker beyond which a lag is forgotten: a worker that was held for a day is not owed for a day."""


class Service:
    """The lag of each study: seconds of workers that it should have had and has not, negative if it had more.

    Where shares are not whole, or workers come back late, studies take turns; the lag says whose turn it is. Lags are
    relative: their mean is 0.
    """

    def __init__(self, remembered_s: float = REMEMBERED_S) -> None:
        self.remembered_s = remembered_s
        self.lags: dict[str, float] = {}
        self.speeds: dict[str, float] = {}
        """How fast the lags grow since ``hold``, in workers."""
        self._now = 0.0

    def advance(self, now: float) -> None:
        """Let time pass until ``now``, in seconds."""
        seconds, self._now = max(0.0, now - self._now), max(now, self._now)
        if not self.speeds:
            return
        lags = {study: self.lags.get(study, 0.0) + speed * seconds for study, speed in self.speeds.items()}
        least = max(lags.values()) - 2 * self.remembered_s
        kept = {study: max(lag, least) for study, lag in lags.items()}
        mean = sum(kept.values()) / len(kept)
        self.lags = {study: lag - mean for study, lag in kept.items()}

    def hold(self, rates: Mapping[str, float], held: Mapping[str, int]) -> None:
        """Set the workers that each study should have and has from now on.

        A study that can use nothing is owed nothing. Workers beyond a study's share count against it only as far as
        other studies miss them. Workers that nobody has, too few for a gang, are missed by all in proportion.
        """
        missing = {study: max(0.0, rate - held.get(study, 0)) for study, rate in rates.items()}
        beyond = {study: max(0.0, held.get(study, 0) - rate) for study, rate in rates.items()}
        surplus, total = sum(beyond.values()), sum(rates.values())
        part = min(1.0, sum(missing.values()) / surplus) if surplus else 0.0
        idle = max(0.0, sum(missing.values()) - surplus) / total if total else 0.0
        self.speeds = {study: missing[study] - part * beyond[study] - idle * rate for study, rate in rates.items()}
        self.lags = {study: self.lags.get(study, 0.0) for study, rate in rates.items() if rate > 0}
