"""Sequences that change continuously: ``exponential``, ``linear``, ``polynomial``, ``cosine``.

Their phase begins with them: at 0, at the end of a warm-up or at a boundary of a chain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from asyncsearch.sequences import formulas, parsing
from asyncsearch.sequences.base_sequence import Sequence
from asyncsearch.sequences.formulas import Const, Piece, between
from asyncsearch.sequences.templates import Undecided


@dataclass(frozen=True, repr=False)
class Exponential(Sequence):
    """A number that is multiplied by ``gamma`` after each unit."""

    kind = "exponential"
    value: Annotated[Any, parsing.number]
    gamma: Annotated[Any, parsing.factor]

    def pieces_from(self, origin: int) -> Iterator[Piece]:
        stays = self.gamma == 1 or self.value == 0
        yield Piece(origin, Const(self.value) if stays else formulas.ExponentialFormula(self.value, self.gamma, origin))

    def span(self) -> int:
        if self.gamma in (0, 1):
            return 10
        return min(1000, max(10, math.ceil(3 / abs(math.log(self.gamma)))))


@dataclass(frozen=True, repr=False)
class Linear(Sequence):
    """A straight line from ``value`` to ``end``."""

    kind = "linear"
    value: Annotated[Any, parsing.number]
    total: Annotated[Any, parsing.units]
    end: Annotated[Any, parsing.number] = 0.0

    def pieces_from(self, origin: int) -> Iterator[Piece]:
        yield Piece(origin, between(origin, self.value, origin + self.total, self.end))
        yield Piece(origin + self.total, Const(self.end))

    def span(self) -> int:
        return max(10, int(self.total) * 5 // 4)


@dataclass(frozen=True, repr=False)
class Polynomial(Sequence):
    """A power of the time that is left, from ``value`` to ``end``."""

    kind = "polynomial"
    value: Annotated[Any, parsing.number]
    total: Annotated[Any, parsing.units]
    power: Annotated[Any, parsing.positive] = 1.0
    end: Annotated[Any, parsing.number] = 0.0

    def pieces_from(self, origin: int) -> Iterator[Piece]:
        if self.power == 1 or self.value == self.end:
            yield Piece(origin, between(origin, self.value, origin + self.total, self.end))
        else:
            yield Piece(origin, formulas.PolynomialFormula(self.value, self.end, self.total, self.power, origin))
        yield Piece(origin + self.total, Const(self.end))

    def span(self) -> int:
        return max(10, int(self.total) * 5 // 4)


@dataclass(frozen=True, repr=False)
class Cosine(Sequence):
    """Half a cosine wave from ``value`` to ``eta_min``."""

    kind = "cosine"
    value: Annotated[Any, parsing.number]
    total: Annotated[Any, parsing.units]
    eta_min: Annotated[Any, parsing.number] = 0.0

    def pieces_from(self, origin: int) -> Iterator[Piece]:
        yield wave(origin, self.value, self.eta_min, self.total)
        yield Piece(origin + self.total, Const(self.eta_min))

    def span(self) -> int:
        return max(10, int(self.total) * 5 // 4)


def exponential(value: float | Undecided, gamma: float | Undecided) -> Exponential:
    """Return a sequence of ``value * gamma**k`` in the k-th unit after its beginning; it does not change inside a unit.

    Raises:
        SpaceError: an argument is no finite number, or ``gamma`` is negative.
    """
    return Exponential(value, gamma)


def linear(value: float | Undecided, total: int | Undecided, end: float | Undecided = 0.0) -> Linear:
    """Return a line from ``value`` to ``end`` in ``total`` units from its beginning on, then ``end``.

    After a warm-up of d units it ends at d + ``total``. Other libraries count from 0: for their
    ``num_training_steps`` T write ``warmup(d, linear(value, total=T - d))``.

    Raises:
        SpaceError: an argument is malformed.
    """
    return Linear(value, total, end)


def polynomial(
    value: float | Undecided, total: int | Undecided, power: float | Undecided = 1.0, end: float | Undecided = 0.0
) -> Polynomial:
    """Return ``end + (value - end) * (1 - t / total)**power``, t units after its beginning, and ``end`` from total on.

    Raises:
        SpaceError: an argument is malformed.
    """
    return Polynomial(value, total, power, end)


def cosine(value: float | Undecided, total: int | Undecided, eta_min: float | Undecided = 0.0) -> Cosine:
    """Return half a cosine wave from ``value`` to ``eta_min`` in ``total`` units, and ``eta_min`` afterwards.

    Raises:
        SpaceError: an argument is malformed.
    """
    return Cosine(value, total, eta_min)


def wave(start: int, value: float, eta_min: float, total: int) -> Piece:
    """Return the piece of half a cosine wave."""
    stays = value == eta_min
    return Piece(start, Const(value) if stays else formulas.CosineFormula(value, eta_min, total, start))
