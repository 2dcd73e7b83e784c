"""Sequences that keep one value between milestones: ``constant``, ``values``, ``multistep``, ``step``.

Milestones are absolute times of the trial: the new value holds from the milestone on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

from asyncsearch.errors import SpaceError
from asyncsearch.sequences import parsing
from asyncsearch.sequences.base_sequence import Sequence
from asyncsearch.sequences.cycles import Periodic
from asyncsearch.sequences.formulas import Const, Formula, Piece, TooLarge, scaled
from asyncsearch.sequences.templates import Undecided, is_open
from asyncsearch.values.json_values import INT_MAX, INT_MIN


@dataclass(frozen=True, repr=False)
class ConstantSequence(Sequence):
    """One value for all time."""

    kind = "constant"
    value: Annotated[Any, parsing.constant]

    def pieces_from(self, origin: int) -> Iterator[Piece]:
        yield Piece(origin, Const(self.value))


@dataclass(frozen=True, repr=False)
class Values(Sequence):
    """Values that follow each other at milestones."""

    kind = "values"
    values: Annotated[Any, parsing.items(parsing.constant, "values")]
    milestones: Annotated[Any, parsing.times]

    def _check(self) -> None:
        if isinstance(self.values, Undecided) or isinstance(self.milestones, Undecided):
            return
        if len(self.values) != len(self.milestones) + 1:
            raise SpaceError(
                f"{self!r} has {len(self.values)} values and {len(self.milestones)} milestones: write one value more "
                "than milestones, the first one holds from the beginning."
            )

    def pieces_from(self, origin: int) -> Iterator[Piece]:
        return constants(self.values, self.milestones, origin)

    def span(self) -> int:
        return span_of(self.milestones)


@dataclass(frozen=True, repr=False)
class MultiStep(Sequence):
    """A number that is multiplied by ``gamma`` at each milestone."""

    kind = "multistep"
    value: Annotated[Any, parsing.int_or_float]
    milestones: Annotated[Any, parsing.times]
    gamma: Annotated[Any, parsing.factor] = 0.1

    def pieces_from(self, origin: int) -> Iterator[Piece]:
        steps = (power_of(self.value, self.gamma, count) for count in range(len(self.milestones) + 1))
        return between_milestones(steps, self.milestones, origin)

    def span(self) -> int:
        return span_of(self.milestones)


@dataclass(frozen=True, repr=False)
class Step(Periodic):
    """A number that is multiplied by ``gamma`` every ``step_size`` units."""

    kind = "step"
    value: Annotated[Any, parsing.int_or_float]
    step_size: Annotated[Any, parsing.units]
    gamma: Annotated[Any, parsing.factor] = 0.1

    def index(self, time: float, origin: int) -> int:
        return math.floor(time) // int(self.step_size)

    def nth(self, index: int, origin: int) -> Piece:
        return Piece(index * self.step_size, power_of(self.value, self.gamma, index))

    def stays(self) -> bool:
        return bool(self.gamma == 1 or self.value == 0)

    def span(self) -> int:
        return 4 * int(self.step_size)


def constant(value: Any) -> ConstantSequence:
    """Return a sequence with one value, a JSON value, for all time; the same as the bare value.

    Raises:
        SpaceError: it is not a JSON value, or a sequence.
    """
    return ConstantSequence(value)


def values(values: Iterable[Any] | Undecided, milestones: Iterable[int | Undecided] | Undecided) -> Values:
    """Return a sequence with the next one of ``values`` from each milestone on.

    Args:
        values: JSON values, one more than milestones: numbers, names, lists.
        milestones: Units of training, whole, from 1 on, ascending; absolute times of the trial.

    Raises:
        SpaceError: the arguments are malformed, or their numbers do not fit.
    """
    return Values(values, milestones)


def multistep(
    value: float | Undecided, milestones: Iterable[int | Undecided] | Undecided, gamma: float | Undecided = 0.1
) -> MultiStep:
    """Return a sequence of ``value * gamma**k`` from the k-th milestone on.

    Products are exact decimals: 0.1 * 0.1 is 0.01. An int stays an int where the product is whole.

    Args:
        value: The number at the beginning.
        milestones: Units of training, whole, from 1 on, ascending; absolute times of the trial, so that they are
            the same after a warm-up (torch's SequentialLR would count them from its end).
        gamma: Factor, from 0 on.

    Raises:
        SpaceError: an argument is malformed.
    """
    return MultiStep(value, milestones, gamma)


def step(value: float | Undecided, step_size: int | Undecided, gamma: float | Undecided = 0.1) -> Step:
    """Return a sequence of ``value * gamma**k`` from ``k * step_size`` on: ``multistep`` with evenly spaced milestones.

    Raises:
        SpaceError: an argument is malformed.
    """
    return Step(value, step_size, gamma)


def power_of(value: float, gamma: float, count: int) -> Formula:
    """Return ``value * gamma**count`` as a formula."""
    result = scaled(value, gamma, count)
    if abs(result) == math.inf or (isinstance(result, int) and not INT_MIN <= result <= INT_MAX):
        return TooLarge(f"{value!r} * {gamma!r}**{count}")
    return Const(result)


def constants(found: Iterable[Any], milestones: Iterable[int], origin: int) -> Iterator[Piece]:
    """Yield the pieces of values between milestones."""
    return between_milestones(map(Const, found), milestones, origin)


def between_milestones(found: Iterable[Formula], milestones: Iterable[int], origin: int) -> Iterator[Piece]:
    """Yield the pieces of formulas between milestones, from ``origin`` on."""
    passed = sum(milestone <= origin for milestone in milestones)
    for formula, start in islice(zip(found, (0, *milestones), strict=True), passed, None):
        yield Piece(max(start, origin), formula)


def span_of(milestones: Any) -> int:
    """Return how many units show all milestones and the value after the last one."""
    return 10 if is_open(milestones) or not milestones else max(10, int(milestones[-1]) * 5 // 4)
