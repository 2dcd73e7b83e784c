"""Domains of numbers: ``uniform``, ``loguniform``, ``quniform``; ``randint`` and ``lograndint`` with both bounds.

Rule 1: pure; all randomness comes from the generator that ``sample`` is given.
Rule 2: what lies evenly between decimals is computed with exact fractions, never summed up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from asyncsearch.checked_calls import answering
from asyncsearch.errors import SpaceError
from asyncsearch.randomness import below, step_at
from asyncsearch.sequences.formulas import fraction
from asyncsearch.space.parameter_values import number, show

if TYPE_CHECKING:
    import numpy as np
from collections.abc import Iterable
from dataclasses import fields
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, TypeVar

from asyncsearch.space.domains import Domain
from asyncsearch.space.parameter_values import integer

if TYPE_CHECKING:
    import numpy as np


T = TypeVar("T", int, float)


@dataclass(frozen=True, repr=False)
class Numbers(Domain):
    """Numbers from ``low`` to ``high``; each field is an argument."""

    parse: ClassVar[staticmethod[[Any], Any]]
    """Returns a value as one of them, or raises ``SpaceError``."""
    noun: ClassVar[str]
    """One of them, for messages: ``an integer``."""
    low: Any
    high: Any

    def __post_init__(self) -> None:
        for name, value in self.arguments().items():
            try:
                object.__setattr__(self, name, self.parse(value))
            except SpaceError as error:
                raise SpaceError(f"{self.kind}({name}=...): {error}") from None

    def accept(self, value: Any) -> Any:
        try:
            result = self.parse(value)
        except SpaceError as error:
            raise SpaceError(f"{error} Its domain is {self.call()}.") from None
        if not self.low <= result <= self.high:
            bounds = f"{self.low} to {self.high}"
            raise SpaceError(f"{show(value)} is outside {self.call()}: write {self.noun} from {bounds}.")
        return result

    def arguments(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self) if not field.kw_only}

    def _bounds_error(self, rule: str) -> SpaceError:
        low, high = self.low, self.high
        advice = f"constant({low!r})" if low == high else f"{self.kind}({high!r}, {low!r})"
        return SpaceError(f"{self.call()}: low must {rule} high; write {advice}.")


def shares(points: int | None) -> list[Fraction]:
    """Return ``points`` numbers evenly from 0 to 1; the middle if there is only one."""
    # Callers ask Domain.size first: a continuous domain has no grid of all values.
    assert points is not None
    if points == 1:
        return [Fraction(1, 2)]
    return [Fraction(index, points - 1) for index in range(points)]


def log_between(low: float, high: float, share: float) -> float:
    """Return the number whose logarithm lies at ``share`` (0 to 1) between those of two positive numbers."""
    return math.exp(math.log(low) * (1 - share) + math.log(high) * share)


def distinct(values: Iterable[T]) -> Sequence[T]:
    """Return the values ascending, without repetitions."""
    return tuple(sorted(set(values)))


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
    write ``randint(16, 256, step=16)``.

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


@dataclass(frozen=True, repr=False)
class RandInt(Numbers):
    """Integers from ``low`` to ``high``, both included, each equally likely."""

    kind = "randint"
    parse = staticmethod(integer)
    noun = "an integer"
    low: int
    high: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low > self.high:
            raise self._bounds_error("not be above")

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    def sample(self, generator: np.random.Generator) -> int:
        return self.low + below(generator, self.size)

    def at_quantile(self, share: float) -> int:
        return self.low + step_at(share, self.size)

    def grid(self, points: int | None) -> Sequence[int]:
        if points is None or points >= self.size:
            return range(self.low, self.high + 1)
        return self._spaced(points)

    def _spaced(self, points: int) -> Sequence[int]:
        return distinct(self.low + round((self.size - 1) * share) for share in shares(points))


@dataclass(frozen=True, repr=False)
class LogRandInt(RandInt):
    """Integers from ``low`` to ``high``, both included, k with a probability of about 1 / k."""

    kind = "lograndint"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low < 1:
            raise SpaceError(f"{self.call()}: low must be 1 or more to have a logarithm; write 1.")

    sample = Domain.sample

    def at_quantile(self, share: float) -> int:
        # Half a step beyond both bounds, so that they get their full share.
        return self._nearest(log_between(self.low - 0.5, self.high + 0.5, share))

    def _spaced(self, points: int) -> Sequence[int]:
        return distinct(self._nearest(log_between(self.low, self.high, float(share))) for share in shares(points))

    def _nearest(self, value: float) -> int:
        return max(self.low, min(round(value), self.high))


@dataclass(frozen=True, repr=False)
class QRandInt(RandInt):
    """Integers low, low + step, low + 2 step, ... up to high, each equally likely."""

    kind = "randint"
    step: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step < 1:
            raise SpaceError(f"{self.call()}: step must be 1 or more; write the distance of two neighbouring values.")

    @property
    def size(self) -> int:
        return (self.high - self.low) // self.step + 1

    def sample(self, generator: np.random.Generator) -> int:
        return self.low + self.step * below(generator, self.size)

    def at_quantile(self, share: float) -> int:
        return self.low + self.step * step_at(share, self.size)

    def accept(self, value: Any) -> int:
        result: int = super().accept(value)
        if (nearest := self.nearest(result)) != result:
            raise SpaceError(f"{show(value)} is not a step of {self.call()}: write {nearest}, the nearest one.")
        return result

    def grid(self, points: int | None) -> Sequence[int]:
        if points is None or points >= self.size:
            return range(self.low, self.high + 1, self.step)
        return distinct(self.low + self.step * round((self.size - 1) * share) for share in shares(points))

    def nearest(self, value: float) -> int:
        """Return the value that is nearest to a number."""
        index = round((value - self.low) / self.step)
        return self.low + self.step * max(0, min(index, self.size - 1))

    def call(self) -> str:
        return f"randint({self.low!r}, {self.high!r}, step={self.step!r})"


@answering("randint", "randint(1, 4)")
def randint(low: int, high: int, *, step: int | None = None) -> RandInt:
    """Return a domain of the integers from ``low`` to ``high``, both included, each equally likely.

    With ``step`` they are low, low + step, low + 2 step, ..., at most ``high``.

    Raises:
        SpaceError: a bound or the step is not an integer of 64 bits, low > high, or step < 1.
    """
    return RandInt(low, high) if step is None else QRandInt(low, high, step)


@answering("lograndint", "lograndint(1, 1024)")
def lograndint(low: int, high: int) -> LogRandInt:
    """Return a domain of the integers from ``low`` to ``high``, both included, k with a probability of about 1 / k.

    Raises:
        SpaceError: a bound is not an integer of 64 bits, low < 1, or low > high.
    """
    return LogRandInt(low, high)
