"""Domains of floats: ``uniform``, ``loguniform`` and ``quniform``.

Rule 1: pure; all randomness comes from the generator that ``sample`` is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from asyncsearch.checked_calls import answering
from asyncsearch.errors import SpaceError
from asyncsearch.randomness import below, step_at
from asyncsearch.sequences.exact_arithmetic import fraction
from asyncsearch.space.parameter_values import number, show
from asyncsearch.space.spacing import Numbers, distinct, log_between, shares

if TYPE_CHECKING:
    import numpy as np

_MAX_STEPS = 2**53


@dataclass(frozen=True, repr=False)
class _Floats(Numbers):
    """Floats from ``low`` to ``high``."""

    parse = staticmethod(number)
    noun = "a number"
    low: float
    high: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low >= self.high:
            raise self._bounds_error("be below")

    @property
    def size(self) -> int | None:
        return None

    def _drawn(self, value: float) -> float:
        """Return a draw moved into [low, high): rounding must not return the upper bound, nor leave the range."""
        return max(self.low, min(value, math.nextafter(self.high, self.low)))


@dataclass(frozen=True, repr=False)
class Uniform(_Floats):
    """Floats, evenly."""

    kind = "uniform"

    def at_quantile(self, share: float) -> float:
        # Not low + (high - low) * share: the difference of two finite bounds may be infinite.
        return self._drawn(self.low * (1 - share) + self.high * share)

    def grid(self, points: int | None) -> Sequence[float]:
        low, high = fraction(self.low), fraction(self.high)
        return distinct(float(low + (high - low) * share) for share in shares(points))


@dataclass(frozen=True, repr=False)
class LogUniform(_Floats):
    """Floats whose logarithms are even."""

    kind = "loguniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low <= 0:
            raise SpaceError(f"{self.call()}: low must be above 0 to have a logarithm; write e.g. 1e-6.")

    def at_quantile(self, share: float) -> float:
        return self._drawn(log_between(self.low, self.high, share))

    def grid(self, points: int | None) -> Sequence[float]:
        return distinct(self._grid_value(float(share)) for share in shares(points))

    def _grid_value(self, share: float) -> float:
        if share in (0.0, 1.0):
            return self.high if share else self.low
        # 12 digits: 0.001, not 0.0010000000000000002.
        value = float(f"{log_between(self.low, self.high, share):.12g}")
        return max(self.low, min(value, self.high))


@dataclass(frozen=True, repr=False)
class QUniform(_Floats):
    """Floats low, low + step, low + 2 step, ... up to high, each equally likely."""

    kind = "quniform"
    step: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step <= 0:
            raise SpaceError(f"{self.call()}: step must be above 0; write the distance of two neighbouring values.")
        if self.size < 2:
            raise SpaceError(f"{self.call()}: step must not be larger than high - low; write a smaller step.")
        if self.size > _MAX_STEPS:
            raise SpaceError(f"{self.call()}: step is finer than floats; write uniform({self.low!r}, {self.high!r}).")

    @property
    def size(self) -> int:
        return (fraction(self.high) - fraction(self.low)) // fraction(self.step) + 1

    def sample(self, generator: np.random.Generator) -> float:
        return self.at(below(generator, self.size))

    def at_quantile(self, share: float) -> float:
        return self.at(step_at(share, self.size))

    def accept(self, value: Any) -> float:
        result: float = super().accept(value)
        if (step := self.nearest(result)) != result:
            raise SpaceError(f"{show(value)} is not a step of {self.call()}: write {step}, the nearest one.")
        return result

    def grid(self, points: int | None) -> Sequence[float]:
        if points is None or points >= self.size:
            return _Steps(self)
        return distinct(self.at(round((self.size - 1) * share)) for share in shares(points))

    def at(self, index: int) -> float:
        """Return the value at an index from 0 to ``size - 1``."""
        return float(fraction(self.low) + index * fraction(self.step))

    def nearest(self, value: float) -> float:
        """Return the value that is nearest to a number."""
        index = round((fraction(value) - fraction(self.low)) / fraction(self.step))
        return self.at(max(0, min(index, self.size - 1)))


@answering("uniform", "uniform(0.0, 1.0)")
def uniform(low: float, high: float) -> Uniform:
    """Return a domain of floats; draws are even in [low, high).

    ``high`` itself is a legal value too: initial points may name it and grids end at it.

    Raises:
        SpaceError: a bound is not a finite number, or low >= high.
    """
    return Uniform(low, high)


@answering("loguniform", "loguniform(1e-4, 1e-1)")
def loguniform(low: float, high: float) -> LogUniform:
    """Return a domain of floats; the logarithms of draws are even in [log low, log high). ``high`` is legal too.

    Raises:
        SpaceError: a bound is not a finite number, low <= 0, or low >= high.
    """
    return LogUniform(low, high)


@answering("quniform", "quniform(0.0, 1.0, 0.1)")
def quniform(low: float, high: float, step: float) -> QUniform:
    """Return a domain of the floats low, low + step, low + 2 step, ... that are at most ``high``, each equally likely.

    They are exact decimals: ``quniform(0.1, 0.5, 0.1)`` has 0.3, not 0.30000000000000004. For whole numbers
    write ``choice(*range(16, 257, 16))``.

    Raises:
        SpaceError: an argument is not a finite number, low >= high, step <= 0, or step > high - low.
    """
    return QUniform(low, high, step)


class _Steps(Sequence[float]):
    """All values of a ``quniform``, computed when asked for: there may be millions."""

    def __init__(self, domain: QUniform) -> None:
        self._domain = domain

    def __len__(self) -> int:
        return self._domain.size

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[float]: ...
    def __getitem__(self, index: int | slice) -> float | Sequence[float]:
        chosen = range(len(self))[index]
        return self._domain.at(chosen) if isinstance(chosen, int) else [self._domain.at(i) for i in chosen]
