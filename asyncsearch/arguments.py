"""Checks of the users' arguments: each error names the argument, its value and a valid replacement."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, SupportsFloat, SupportsIndex

import msgspec

from asyncsearch.errors import UsageError


def checked(value: Any, kind: type[Any], name: str) -> Any:
    """Return the value if it is an instance of the class."""
    if isinstance(value, kind):
        return value
    if isinstance(value, type) and issubclass(value, kind):
        hint = f"{value.__name__}(...)"
    elif inspect.isabstract(kind):
        hint = f"an object of a class derived from {kind.__name__}"
    else:
        hint = f"{kind.__name__}(...)"
    raise UsageError(f"{name}={value!r} is not a {kind.__name__}: write {hint}.")


def yes_or_no(name: str, value: object) -> bool:
    """Return True or False; a word such as "no", which would count as True, is refused."""
    if type(value).__name__ in ("bool", "bool_"):  # also numpy's, which runners do not import
        return bool(value)
    raise UsageError(f"{name}={value!r} is neither True nor False: write {name}=True or {name}=False.")


def finite_number(name: str, value: object) -> float:
    """Return a number that is neither NaN nor infinite."""
    if not math.isfinite(number := _number(value)):
        raise UsageError(f"{name}={value!r} must be a finite number, e.g. {name}=0.5.")
    return number


def not_negative(name: str, value: object) -> float:
    """Return a finite number that is not negative."""
    if not 0 <= (number := _number(value)) < math.inf:
        raise UsageError(f"{name}={value!r} must be a finite number from 0: write {name}=0 for none.")
    return number


def above_zero(name: str, value: object) -> float:
    """Return a positive, finite number."""
    if not 0 < (number := _number(value)) < math.inf:
        raise UsageError(f"{name}={value!r} must be a positive, finite number, e.g. {name}=1.0.")
    return number


def seconds_of(name: str, value: object) -> float:
    """Return a positive, finite duration in seconds."""
    seconds = _number(value.total_seconds() if isinstance(value, timedelta) else value)
    if not 0 < seconds < math.inf:
        raise UsageError(f"{name}={value!r} must be a positive, finite number of seconds, or a timedelta.")
    return seconds


def _number(value: object) -> float:
    """Return a number unchanged, NaN for any other value, and infinity for a number beyond the range of floats."""
    try:
        return float(value) if isinstance(value, SupportsFloat) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.inf


def count_of(name: str, value: object) -> int:
    """Return an integer from 0."""
    number = _integer(value)
    if number < 0:
        raise UsageError(f"{name}={value!r} must be an integer from 0, e.g. {name}=3.")
    return number


def positive(name: str, value: object) -> int:
    """Return a positive integer."""
    number = _integer(value)
    if number < 1:
        raise UsageError(f"{name}={value!r} must be a positive integer.")
    return number


def _integer(value: object) -> int:
    """Return an integer unchanged, and -1 for any other value."""
    return value.__index__() if isinstance(value, SupportsIndex) and not isinstance(value, bool) else -1


def text_of(name: str, value: object) -> str:
    """Return text."""
    if not isinstance(value, str):
        raise UsageError(f"{name}={value!r} must be text: write e.g. {name}={str(value)!r}.")
    if not is_unicode(value):
        raise UsageError(f"{name}={value!r} is not valid Unicode, so it cannot be written to a file: write other text.")
    return value


def is_unicode(text: str) -> bool:
    """Return whether text can be written to a file; the lone surrogates of undecodable bytes cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def enough(parallelism: int | None, num_trials: int | None) -> int | None:
    """Return at most as many workers as there are trials: more would never get work."""
    if parallelism is None or num_trials is None:
        return parallelism
    return min(parallelism, num_trials)


def refuse_ungrouped(function: str, arguments: Mapping[str, Any], **groups: type[msgspec.Struct]) -> None:
    """Refuse unknown arguments; if an argument belongs to a group, the error names the group.

    Raises:
        UsageError: the argument belongs to a group.
        TypeError: the argument is unknown.
    """
    for name, value in arguments.items():
        for group, kind in groups.items():
            if name in kind.__struct_fields__:
                raise UsageError(
                    f"{name}={value!r} belongs in {group}=: write {group}={kind.__name__}({name}={value!r})."
                )
        raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
