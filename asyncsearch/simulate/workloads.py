"""What simulated trials cost and are worth. Pure functions of trial and resource."""

from __future__ import annotations

import math
from typing import Protocol

from asyncsearch.arguments import above_zero, count_of, not_negative
from asyncsearch.ids import TrialId
from asyncsearch.randomness import generator
from asyncsearch.trial import Params


class Workload(Protocol):
    """What a simulated cluster trains."""

    def value(self, trial: TrialId, params: Params, resource: int) -> float:
        """Return the metric after ``resource`` units of training."""

    def seconds(self, trial: TrialId, params: Params) -> float:
        """Return how long one unit of training takes, in virtual seconds: positive, finite."""


class Curves:
    """Learning curves with known ends: each trial's loss falls from 1 to its own floor, some faster than others.

    The floor and the speed of a trial are drawn from (seed, trial), so rankings at small resources mislead sometimes,
    as in real life.

    Args:
        seed: of the draws.
        unit_s: mean virtual seconds of a unit of training.
        spread: standard deviation of the normal z in the cost ``unit_s * (1 + |z|)`` (ASHA paper, appendix A.1).

    Raises:
        UsageError: a number that cannot be.
    """

    def __init__(self, seed: int = 0, unit_s: float = 1.0, spread: float = 0.0) -> None:
        self.seed = count_of("seed", seed)
        self.unit_s, self.spread = above_zero("unit_s", unit_s), not_negative("spread", spread)
        self._drawn: dict[TrialId, tuple[float, float, float]] = {}

    def value(self, trial: TrialId, params: Params, resource: int) -> float:
        """Return the loss: smaller is better, between 0 and 1."""
        floor, speed, _ = self._draw(trial)
        return floor + (1 - floor) * math.exp(-speed * math.log1p(resource))

    def seconds(self, trial: TrialId, params: Params) -> float:
        """Return the cost of a unit of this trial."""
        return self._draw(trial)[2]

    def _draw(self, trial: TrialId) -> tuple[float, float, float]:
        drawn = self._drawn.get(trial)
        if drawn is None:
            random = generator(self.seed, "curve", trial)
            cost = self.unit_s * (1 + abs(self.spread * float(random.standard_normal())))
            drawn = self._drawn[trial] = (float(random.random()), 0.5 + float(random.random()), cost)
        return drawn
