"""Pieces: intervals with one closed formula of time; the formulas, and the exact arithmetic of their decimals.

Rule 1: two formulas have equal texts exactly if they are the same by construction; a text has decimals and fractions
that were written or follow exactly from these, and the origin if the formula has a phase.
Rule 2: a formula computes its value from the time alone, so it does not depend on the order of calls.
Rule 3: decimals are those that the user wrote, rounded to a float once, at the end: 0.1 * 0.1 is 0.01. A product keeps
60 digits, so two expressions of one number never give two floats.
"""

from __future__ import annotations

import abc
import decimal
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import msgspec

from asyncsearch.errors import SpaceError

_CONTEXT = decimal.Context(
    prec=60, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[decimal.InvalidOperation], clamp=0
)


def fraction(value: float) -> Fraction:
    """Return exactly the number that was written: 0.1 is 1/10."""
    return Fraction(repr(value))


def scaled(value: float, factor: float, power: int) -> float:
    """Return value * factor ** power; an int if value is an int and the product is whole; infinite if too large."""
    if power == 0:
        return value
    product = _CONTEXT.multiply(Decimal(repr(value)), _CONTEXT.power(Decimal(repr(factor)), power))
    if isinstance(value, int) and product.is_finite() and product == product.to_integral_value(context=_CONTEXT):
        return int(product)
    return float(product)


class UnknownFunctionError(SpaceError):
    """The function of a user's own sequence is not known in this process."""


class Formula(abc.ABC):
    """A value as a closed formula of absolute time."""

    form: ClassVar[str]
    """The canonical text, for ``str.format`` of the formula."""

    @property
    def text(self) -> str:
        """The canonical text."""
        return self.form.format(self)

    @abc.abstractmethod
    def at(self, time: float) -> Any:
        """Return the value at a time at which the formula holds.

        Raises:
            SpaceError: it is not finite.
        """


class Piece(NamedTuple):
    """From ``start`` (in units of training) to the start of the next piece one formula holds."""

    start: int
    formula: Formula


def text_of(value: Any, json_value: Callable[[Any], Any] | None = None) -> str:
    """Return the canonical text of a JSON value: keys sorted, numbers as shortest decimals; 1, 1.0 and True differ.

    ``json_value`` returns a JSON value for what is none.
    """
    return msgspec.json.encode(value, order="sorted", enc_hook=json_value).decode()


@dataclass(frozen=True)
class Const(Formula):
    """One value."""

    value: Any

    @property
    def text(self) -> str:
        return text_of(self.value)

    def at(self, time: float) -> Any:
        return self.value


@dataclass(frozen=True)
class TooLarge(Formula):
    """A value that is too large for a float; an error only if training reaches it."""

    form = "too large: {0.what}"
    what: str

    def at(self, time: float) -> Any:
        raise SpaceError(
            f"{self.what} at {time} is too large for a number: let the sequence grow more slowly, or end it before."
        )


@dataclass(frozen=True)
class Line(Formula):
    """``intercept + slope * time``, rounded once: all descriptions of one line have the same floats."""

    form = "line {0.intercept} {0.slope}"
    intercept: Fraction
    slope: Fraction

    def at(self, time: float) -> float:
        return float(self.intercept + self.slope * Fraction(time))


@dataclass(frozen=True)
class ExponentialFormula(Formula):
    """``value * gamma ** k`` in the k-th unit after the origin."""

    form = "exponential {0.value!r} {0.gamma!r} @{0.origin}"
    value: float
    gamma: float
    origin: int

    def at(self, time: float) -> float:
        return _finite(float(scaled(self.value, self.gamma, math.floor(time) - self.origin)), self, time)


@dataclass(frozen=True)
class PolynomialFormula(Formula):
    """``end + (value - end) * (1 - share) ** power``; the share of ``total`` that has passed since the origin."""

    form = "polynomial {0.value!r} {0.end!r} {0.total} {0.power!r} @{0.origin}"
    value: float
    end: float
    total: int
    power: float
    origin: int

    def at(self, time: float) -> float:
        left = 1 - (time - self.origin) / self.total
        return _finite(_mixed(self.end, self.value, float(left**self.power)), self, time)


@dataclass(frozen=True)
class CosineFormula(Formula):
    """Half a cosine wave from ``value`` at the origin to ``end`` after ``total`` units."""

    form = "cosine {0.value!r} {0.end!r} {0.total} @{0.origin}"
    value: float
    end: float
    total: int
    origin: int

    def at(self, time: float) -> float:
        wave = (1 + math.cos(math.pi * (time - self.origin) / self.total)) / 2
        return _finite(_mixed(self.end, self.value, wave), self, time)


@dataclass(frozen=True)
class ShrinkingTriangle(Formula):
    """A triangle wave whose height is multiplied by ``gamma`` in each unit, inside of units too."""

    form = "exp_range {0.base!r} {0.peak!r} {0.up} {0.down} {0.gamma!r} @{0.origin}"
    base: float
    peak: float
    up: int
    down: int
    gamma: float
    origin: int

    def at(self, time: float) -> float:
        passed = time - self.origin
        phase = passed % (self.up + self.down)
        height = phase / self.up if phase < self.up else (self.up + self.down - phase) / self.down
        try:
            scale = self.gamma**passed
        except OverflowError:
            scale = math.inf
        return _finite(_mixed(self.base, self.peak, height * scale), self, time)


@dataclass(frozen=True)
class CustomFormula(Formula):
    """The user's function of the time since the origin."""

    name: str
    parameters: str
    """Canonical text of its parameters."""
    origin: int
    call: Callable[[float], Any] = field(compare=False)
    code: str = ""
    """Digest of the function's code; empty in the records of versions that did not note it."""

    @property
    def text(self) -> str:
        code = f" code {self.code}" if self.code else ""
        return f"custom {self.name} {self.parameters} @{self.origin}{code}"

    def at(self, time: float) -> Any:
        return self.call(time - self.origin)


@dataclass(frozen=True)
class Rest(Formula):
    """The rest of a sequence of endlessly many pieces after the first ones."""

    form = "rest of {0.what} @{0.origin}"
    what: str
    origin: int
    find: Callable[[float], Formula] = field(compare=False)

    def at(self, time: float) -> Any:
        return self.find(time).at(time)


def line(start: int, first: Fraction, stop: int, last: Fraction) -> Formula:
    """Return the line through two points of time and value."""
    if first == last:
        return Const(float(first))
    slope = (last - first) / (stop - start)
    return Line(first - slope * start, slope)


def between(start: int, first: float, stop: int, last: float) -> Formula:
    """Return the line through two points whose values are decimals."""
    return line(start, fraction(first), stop, fraction(last))


def _mixed(low: float, high: float, share: float) -> float:
    """Interpolate between two numbers, exact at both ends: warm-ups must reach their goal."""
    # Not low + (high - low) * share, which may miss high by a rounding.
    return low * (1 - share) + high * share


def _finite(value: float, formula: Formula, time: float) -> float:
    if math.isfinite(value):
        return value
    raise SpaceError(
        f"The piece {formula.text} is not finite at {time}: let the sequence grow more slowly, or end the piece before."
    )
