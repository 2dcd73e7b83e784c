"""Distributions of sweeps that no domain of asyncsearch is: rounded to steps, normal, of inverses.

The others are domains: uniform, int_uniform, log_uniform, log_uniform_values, categorical, constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from asyncsearch.errors import SpaceError
from asyncsearch.space.domains import Domain

_LEAST = 2.0**-53
"""The least share that a normal distribution is asked for: at 0 it is infinite."""


def _uniform(share: float, low: float, high: float) -> float:
    return low * (1 - share) + high * share


def _normal(share: float, mu: float, sigma: float) -> float:
    return NormalDist(mu, sigma).inv_cdf(max(share, _LEAST))


SHAPES: dict[str, Callable[[float, float, float], float]] = {
    "uniform": _uniform,
    "log_uniform": lambda share, low, high: math.exp(_uniform(share, low, high)),
    "log_uniform_values": lambda share, low, high: math.exp(_uniform(share, math.log(low), math.log(high))),
    "inv_log_uniform": lambda share, low, high: math.exp(-_uniform(1 - share, low, high)),
    "inv_log_uniform_values": lambda share, low, high: math.exp(_uniform(share, math.log(low), math.log(high))),
    "normal": _normal,
    "log_normal": lambda share, mu, sigma: math.exp(_normal(share, mu, sigma)),
}
"""Name -> value up to which a share of the draws lies, of two arguments: min and max, or mu and sigma."""


@dataclass(frozen=True, repr=False)
class SweepDomain(Domain):
    """Values of a distribution of sweeps."""

    kind = "distribution"
    shape: str
    first: float
    second: float
    q: float | int | None = None
    """The step to whose multiples values are rounded; integers if it is one. None if they are not."""

    @property
    def size(self) -> int | None:
        return None

    def at_quantile(self, share: float) -> float:
        value = SHAPES[self.shape](share, self.first, self.second)
        return value if self.q is None else round(value / self.q) * self.q

    def accept(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise SpaceError(f"{value!r} is no number of {self.call()}.")
        return value

    def grid(self, points: int | None) -> Sequence[float]:
        count = points or 1
        return list(dict.fromkeys(self.at_quantile((one + 0.5) / count) for one in range(count)))

    def arguments(self) -> dict[str, Any]:
        return {"shape": self.shape, "first": self.first, "second": self.second, "q": self.q}
