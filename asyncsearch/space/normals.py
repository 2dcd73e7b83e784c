"""Domains without bounds: ``normal`` and ``lognormal``, also in steps.

Rule 1: pure; all randomness comes from the generator that ``sample`` is given.
Rule 2: a draw is the value at an even share, so that Sobol points and samplers of Optuna reach the same ones.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asyncsearch.checked_calls import answering
from asyncsearch.errors import SpaceError
from asyncsearch.sequences.formulas import fraction
from asyncsearch.space.domains import Domain
from asyncsearch.space.numbers import distinct
from asyncsearch.space.parameter_values import number, show

if TYPE_CHECKING:
    from statistics import NormalDist

_LEAST = 2.0**-54
"""The smallest share that is looked up: the value at 0 would be infinite."""
_MOST_LOG = 700.0
"""Logarithm of the largest value of a ``lognormal``: e to the power of 710 is no float."""


@dataclass(frozen=True, repr=False)
class Quantiled(Domain):
    """Numbers without an end to their range, known by their quantiles: a share of the draws lies below each."""

    @property
    def size(self) -> int | None:
        return None

    def at_quantile(self, share: float) -> Any:
        return self.value_at(max(_LEAST, min(share, 1 - _LEAST)))

    def quantile_of(self, value: float) -> float:
        """Return the share of the draws that lie below a value, above 0 and below 1."""
        return max(_LEAST, min(self.share_below(value), 1 - 2.0**-53))

    @abc.abstractmethod
    def value_at(self, share: float) -> Any:
        """Return the value below which a share of the draws lies, 0 < share < 1."""

    @abc.abstractmethod
    def share_below(self, value: float) -> float:
        """Return the share of the draws that lie below a value, from 0 to 1."""

    @abc.abstractmethod
    def near(self, value: float) -> Any:
        """Return the value of the domain that is nearest to a number."""


@dataclass(frozen=True, repr=False)
class Normal(Quantiled):
    """Floats around ``mean``, most of them within ``sd``; with ``step``, multiples of that."""

    kind = "normal"
    mean: float
    sd: float
    step: float | None = None

    def __post_init__(self) -> None:
        for name, value in self.arguments().items():
            try:
                object.__setattr__(self, name, number(value))
            except SpaceError as error:
                raise SpaceError(f"{self.kind}({name}=...): {error}") from None
        for name in ("sd", "step"):
            if getattr(self, name) is not None and getattr(self, name) <= 0:
                raise SpaceError(f"{self.call()}: {name} must be above 0; for a single value write constant().")

    def value_at(self, share: float) -> float:
        return self._stepped(self._value(self._dist.inv_cdf(share)))

    def share_below(self, value: float) -> float:
        return self._dist.cdf(self._exponent(value))

    def accept(self, value: Any) -> float:
        try:
            result = number(value)
        except SpaceError as error:
            raise SpaceError(f"{error} Its domain is {self.call()}.") from None
        self._require(result)
        if self.step is not None and (nearest := self._stepped(result)) != result:
            raise SpaceError(f"{show(value)} is not a step of {self.call()}: write {nearest}, the nearest one.")
        return result

    def grid(self, points: int | None) -> Sequence[float]:
        assert points is not None, "it is continuous"
        shares = ((2 * index + 1) / (2 * points) for index in range(points))
        # 12 digits: 0.001, not 0.0010000000000000002.
        return distinct(self._stepped(float(f"{self.at_quantile(share):.12g}")) for share in shares)

    def arguments(self) -> dict[str, Any]:
        step = {} if self.step is None else {"step": self.step}
        return {"mean": self.mean, "sd": self.sd, **step}

    def call(self) -> str:
        step = "" if self.step is None else f", step={self.step!r}"
        return f"{self.kind}({self.mean!r}, {self.sd!r}{step})"

    def near(self, value: float) -> float:
        return self._stepped(value)

    @property
    def _dist(self) -> NormalDist:
        from statistics import NormalDist  # which takes as long to import as all domains

        return NormalDist(self.mean, self.sd)

    def _value(self, exponent: float) -> float:
        return exponent

    def _exponent(self, value: float) -> float:
        return value

    def _require(self, value: float) -> None:
        """Refuse a value that no draw could be."""

    def _stepped(self, value: float) -> float:
        if self.step is None:
            return value
        step = fraction(self.step)
        return float(round(fraction(value) / step) * step)


@dataclass(frozen=True, repr=False)
class LogNormal(Normal):
    """Positive floats whose logarithms are normal; with ``step``, multiples of that, from 0."""

    kind = "lognormal"

    def near(self, value: float) -> float:
        return self._stepped(max(value, 5e-324 if self.step is None else 0.0))

    def _value(self, exponent: float) -> float:
        return math.exp(max(-_MOST_LOG, min(exponent, _MOST_LOG)))

    def _exponent(self, value: float) -> float:
        return math.log(value) if value > 0 else -_MOST_LOG

    def _require(self, value: float) -> None:
        if value < 0 or (value == 0 and self.step is None):
            raise SpaceError(f"{show(value)} is outside {self.call()}: write a number above 0.")


@answering("normal", "normal(0.0, 1.0)")
def normal(mean: float, sd: float, *, step: float | None = None) -> Normal:
    """Return a domain of floats of a normal distribution, which has no bounds.

    Args:
        mean: of the distribution.
        sd: its standard deviation, above 0.
        step: draws are rounded to multiples of it, exact decimals. None if they are not rounded.

    Raises:
        SpaceError: an argument is not a finite number, or sd or step is not above 0.
    """
    return Normal(mean, sd, step)


@answering("lognormal", "lognormal(-7.0, 1.0)")
def lognormal(mean: float, sd: float, *, step: float | None = None) -> LogNormal:
    """Return a domain of positive floats whose natural logarithm has a normal distribution.

    Args:
        mean: of the logarithm: half of the draws lie below ``exp(mean)``.
        sd: standard deviation of the logarithm, above 0.
        step: draws are rounded to multiples of it, exact decimals, 0 among them. None if they are not rounded.

    Raises:
        SpaceError: an argument is not a finite number, or sd or step is not above 0.
    """
    return LogNormal(mean, sd, step)
