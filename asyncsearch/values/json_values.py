"""Constants are JSON values: how they are made plain, compared, copied and shown.

Rule 1: pure. Rule 2: results are int, float, str, bool, None, list and dict only, never their subclasses.
"""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Hashable, Mapping
from typing import Any

from asyncsearch.errors import SpaceError

INT_MIN = -(2**63)
INT_MAX = 2**63 - 1
_SHOWN_CHARS = 80


def is_numpy_scalar(value: Any) -> bool:
    """Return whether a value is a scalar of numpy, without importing numpy: where it is not, there is none."""
    return isinstance(value, getattr(sys.modules.get("numpy"), "generic", ()))


def is_numpy_array(value: Any) -> bool:
    """Return whether a value is an array of numpy, without importing numpy."""
    return isinstance(value, getattr(sys.modules.get("numpy"), "ndarray", ()))


def plain(value: Any) -> Any:
    """Return a copy made of plain JSON values; tuples become lists, numpy scalars become Python's.

    Raises:
        SpaceError: JSON has no such value.
    """
    if is_numpy_scalar(value):
        value = value.item()
    if isinstance(value, enum.Enum):
        raise SpaceError(f"{value} is an enum member: write its value, {show(value.value)}.")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _plain_text(value)
    if isinstance(value, int):
        return _plain_int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise SpaceError(f"{value} is not finite: JSON has no such number; name it by a string.")
        return float(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {_plain_key(key): plain(item) for key, item in value.items()}
    raise SpaceError(_not_json(value))


def identity(value: Any) -> Hashable:
    """Return a key that two plain values share exactly if they are the same: 1 is 1.0, but not True.

    A function of time has the place that its name and parameters give it, also after an edit of its code; so has an
    object of a choice.
    """
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list):
        return ("list", *map(identity, value))
    if isinstance(value, dict):
        has_code = value.get("sequence") in ("custom", "object")
        return ("dict", frozenset((key, identity(value[key])) for key in value if not (has_code and key == "code")))
    return value  # type: ignore[no-any-return]


def copy_plain(value: Any) -> Any:
    """Return a copy of a plain value that shares nothing mutable with it."""
    if isinstance(value, list):
        return [copy_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: copy_plain(item) for key, item in value.items()}
    return value


def number(value: Any) -> float:
    """Return ``value`` as a finite float.

    Raises:
        SpaceError: it is not a number, or not finite.
    """
    if is_numpy_scalar(value):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SpaceError(f"{show(value)} is {a_type(value)}: write a number.")
    try:
        result = float(value)
    except OverflowError:
        raise SpaceError(f"{show(value)} is too large for a float: write a number below 1.8e308.") from None
    if not math.isfinite(result):
        raise SpaceError(f"{result} is not finite: write a finite number.")
    return result


def integer(value: Any) -> int:
    """Return ``value`` as an int of 64 bits.

    Raises:
        SpaceError: it is not a whole number, or too large.
    """
    if is_numpy_scalar(value):
        value = value.item()
    if isinstance(value, float):
        rounded = str(int(value)) if value.is_integer() else "a whole number (for floats there is uniform(low, high))"
        raise SpaceError(f"{value} is a float: write {rounded}.")
    if isinstance(value, bool) or not isinstance(value, int):
        raise SpaceError(f"{show(value)} is {a_type(value)}: write a whole number.")
    return _plain_int(value)


def show(value: Any) -> str:
    """Return how messages show a value: its repr, shortened; functions and classes by name."""
    if isinstance(value, type) or (callable(value) and hasattr(value, "__name__")):
        return f"{value.__name__} (a {'class' if isinstance(value, type) else 'function'})"
    try:
        text = repr(value)
    except Exception:
        # A repr that raises would hide what was wrong with the value.
        text = f"<{type(value).__name__}>"
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "..."


def a_type(value: Any) -> str:
    """Return the type of a value with its article: ``an int``."""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _plain_int(value: int) -> int:
    if not INT_MIN <= value <= INT_MAX:
        raise SpaceError(f"{show(value)} does not fit into 64 bits: use numbers from -2**63 to 2**63 - 1.")
    return int(value)


def _plain_text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise SpaceError(f"{value!a} is not valid Unicode: it cannot be written to the journal.") from None
    return str.__str__(value)


def _plain_key(key: Any) -> str:
    if not isinstance(key, str):
        raise SpaceError(f"{show(key)} is {a_type(key)}: the keys of a dictionary must be strings.")
    return _plain_text(key)


def _not_json(value: Any) -> str:
    if is_numpy_array(value):
        return f"{show(value)} is a numpy array: write a list (.tolist())."
    if isinstance(value, set | frozenset | range):
        return f"{show(value)} is {a_type(value)}: write a list."
    kind = "" if callable(value) and hasattr(value, "__name__") else f" is {a_type(value)} and"
    return (
        f"{show(value)}{kind} is not a JSON value (numbers, strings, True, False, None, lists and dictionaries of "
        "these): name the object by a string and look it up in the trainable."
    )
