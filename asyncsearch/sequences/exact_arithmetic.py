"""Arithmetic on the decimals that the user wrote, rounded to a float once, at the end.

0.1 * 0.1 is 0.01 here. A product keeps 60 digits, so two expressions of one number never give two floats.
"""

from __future__ import annotations

import decimal
from decimal import Decimal
from fractions import Fraction

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
