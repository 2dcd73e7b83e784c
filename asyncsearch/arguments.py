"""What users pass, checked at the door: each error names the argument, its value and what to write instead."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, SupportsIndex

from asyncsearch.errors import UsageError


def checked(value: Any, kind: type[Any], name: str) -> Any:
    """Return the value if it is of the kind."""
    if isinstance(value, kind):
        return value
    hint = (
        f"{value.__name__}(...)"
        if isinstance(value, type) and issubclass(value, kind)
        else f"an object of a class derived from {kind.__name__}"
    )
    raise UsageError(f"{name}={value!r} is not a {name}: write {hint}.")


def seconds_of(name: str, value: object) -> float:
    """Return a positive duration in seconds."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise UsageError(f"{name}={value!r} must be a positive number of seconds, or a timedelta.")
    return float(seconds)


def positive(name: str, value: object) -> int:
    """Return a positive integer."""
    number = value.__index__() if isinstance(value, SupportsIndex) and not isinstance(value, bool) else 0
    if number < 1:
        raise UsageError(f"{name}={value!r} must be a positive integer.")
    return number


def enough(parallelism: int | None, num_trials: int | None) -> int | None:
    """More workers than trials would never get work."""
    if parallelism is None or num_trials is None:
        return parallelism
    return min(parallelism, num_trials)
