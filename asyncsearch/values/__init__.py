"""Values: numbers that JSON lacks and their names, globals of modules; and what users write, made plain and compared.

json_values.py    constants are JSON values        function_code.py    what a function does, as a digest
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_SPELLED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def spell(value: float) -> float | str:
    """Return ``value``, or its name if it is not finite."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def unspell(value: float | str) -> float:
    """Return the number that was passed to ``spell``."""
    return _SPELLED[value] if isinstance(value, str) else value


def spell_all(metrics: Mapping[str, float]) -> dict[str, float | str]:
    """Spell every value of a mapping of metrics."""
    return {name: spell(value) for name, value in metrics.items()}


def finite(value: float | str | None) -> float | None:
    """Return the value if it is a finite number, else None: NaN and infinities count as no result."""
    if value is None or isinstance(value, str) or not math.isfinite(value):
        return None
    return value


def module_values(module: object) -> Mapping[str, Any]:
    """Return the globals of a module: one with a class of its own may load at any look at it, or raise any error."""
    try:
        found: Mapping[str, Any] = object.__getattribute__(module, "__dict__")
    except AttributeError:  # a library of cffi only says that it is a module
        return {}
    return found
