"""The parts of studies as numbers, of studies that are in no turn or lag by a given time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction

from asyncsearch.fair.demands import Demand, Turn
from asyncsearch.fair.shares import divide

_NO_LAGS: Mapping[str, float] = {}


def fair_rates(demands: Collection[Demand], workers: int) -> dict[str, Fraction]:
    """Return the exact fair share of each study, in workers."""
    return {study: part.rate for study, part in divide(demands, workers, {}).items()}


def shares(demands: Collection[Demand], workers: int, *, lags: Mapping[str, float] = _NO_LAGS) -> dict[str, int]:
    """Return whole workers for each study: its fair share, rounded down or up.

    Args:
        demands: one of each study.
        workers: of the cluster, from 0.
        lags: which studies come first where a share is rounded up: those with the highest number. Among equal ones
            the largest part of a worker comes first, then the order of ``demands``.
    """
    parts = divide(demands, workers, {study: Turn(lag) for study, lag in lags.items()})
    return {study: part.workers for study, part in parts.items()}
