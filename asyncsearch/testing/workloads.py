"""A workload with ties, NaN, infinities, and values that do not improve."""

from __future__ import annotations

import random

from asyncsearch.ids import TrialId
from asyncsearch.nonfinite import spell
from asyncsearch.trial import Params

VALUES: tuple[float | str, ...] = (0.0, 0.25, 0.5, 0.5, 1.0, "NaN", "Infinity")
"""Few, so that ties are common."""


def coarse(loss: float, sign: float) -> float | str:
    """Return one of ``VALUES`` with this sign; it follows from the loss alone."""
    return spell(sign * float(VALUES[int(loss * 7919) % len(VALUES)]))


class Steps:
    """Each report is one of a few values and does not depend on the training; some trials are twice as slow as others.

    Args:
        mode: ``"min"``, or ``"max"`` for the same search with opposite signs.
    """

    def __init__(self, mode: str = "min") -> None:
        self._sign = 1.0 if mode == "min" else -1.0

    def value(self, trial: TrialId, params: Params, resource: int) -> float:
        """Return the reported value."""
        return self._sign * float(random.Random(f"{trial}/{resource}").choice(VALUES))

    def seconds(self, trial: TrialId, params: Params) -> float:
        """Return the cost of a unit, 1 or 2 virtual seconds."""
        return 1.0 + trial % 2
