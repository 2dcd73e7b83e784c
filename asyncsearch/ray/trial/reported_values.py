"""The values of a report: by flat names, as numbers of Python's, and as the floats that the journal has."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

Number = bool | int | float
METRIC_TYPES = "metric_types"
"""The note of a trial that says which metrics are integers or truth values."""


def number_in(value: Any) -> Number | None:
    """Return a value, also one of numpy's or a framework's, as a number of Python's. None if it is none."""
    if isinstance(value, bool | int | float):
        return value if type(value) in (bool, int) else float(value)  # NaN and infinities are themselves
    try:
        if getattr(value, "size", None) == 1 or getattr(value, "numel", lambda: 0)() == 1 or hasattr(value, "item"):
            found = value.item()
            return found if type(found) in (bool, int) else float(found)
        if hasattr(value, "numpy"):
            return float(value.numpy())
    except Exception:  # whatever a foreign object raises, it is no number
        pass
    return None


def as_floats(numbers: Mapping[str, Number]) -> dict[str, float]:
    """Return numbers as the journal has them."""
    return {name: float_of(number) for name, number in numbers.items()}


def float_of(number: Number) -> float:
    """Return a number as a float; an integer beyond all floats as an infinity."""
    try:
        return float(number)
    except OverflowError:
        return math.copysign(math.inf, number)


def flattened(metrics: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested metrics, with names joined by "/"."""
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{name}/")
        else:
            yield f"{prefix}{name}", value
