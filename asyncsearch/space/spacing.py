"""The base of the domains of numbers, and even spacing.

Rule 1: pure. Rule 2: what lies evenly between decimals is computed with exact fractions, never summed up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, TypeVar

from asyncsearch.errors import SpaceError
from asyncsearch.space.domains import Domain
from asyncsearch.space.parameter_values import show

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
