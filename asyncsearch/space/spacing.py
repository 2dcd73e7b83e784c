"""Arithmetic that the domains of numbers share: exact decimals, even spacing, and the checks of their arguments.

Rule 1: pure. Rule 2: what lies evenly between decimals is computed with exact fractions, never summed up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, TypeVar

from asyncsearch.errors import SpaceError
from asyncsearch.space.domains import Domain

T = TypeVar("T", int, float)


def decimal(value: float) -> Fraction:
    """Return exactly the number that was written: 0.1 is 1/10, not the nearest binary fraction."""
    return Fraction(repr(value))


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


def parse_arguments(domain: Domain, parse: Callable[[Any], float], names: Iterable[str]) -> None:
    """Replace those fields of a domain under construction by what ``parse`` makes of them.

    Raises:
        SpaceError: ``parse`` refuses one; the message names the domain and the argument.
    """
    for name in names:
        try:
            object.__setattr__(domain, name, parse(getattr(domain, name)))
        except SpaceError as error:
            raise SpaceError(f"{domain.kind}({name}=...): {error}") from None


def parse_value(domain: Domain, parse: Callable[[Any], T], value: Any) -> T:
    """Return what ``parse`` makes of a value that is meant for the domain.

    Raises:
        SpaceError: ``parse`` refuses it.
    """
    try:
        return parse(value)
    except SpaceError as error:
        raise SpaceError(f"{error} Its domain is {domain.call()}.") from None


def bounds_advice(kind: str, low: float, high: float) -> str:
    """Return what to write instead of bounds in the wrong order."""
    return f"write constant({low!r})" if low == high else f"write {kind}({high!r}, {low!r})"
