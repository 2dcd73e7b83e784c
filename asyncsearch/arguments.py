"""Checks of the users' arguments: each error names the argument, its value and the line to write instead."""

from __future__ import annotations

import inspect
import keyword
import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any, SupportsFloat, SupportsIndex

import msgspec

from asyncsearch.errors import UsageError

MOST = 2**53 - 1
"""The largest count: exact in JSON and as a float."""
MOST_WORKERS = 100_000
_LONGEST_S = 30 * 365.25 * 86_400
_SHOWN_BITS = 200

_OF_REPORT = ("self", "metrics", "resource")
"""Names that ``trial.report`` takes as its own arguments, not as metrics."""


def metric_in_call(metric: str, value: object = "...") -> str:
    """Return the argument that reports a metric, ``loss=0.5``, or ``{'val/loss': 0.5}`` where its name is no keyword.

    ``value`` is a text, as it is to stand in the call.
    """
    if metric.isidentifier() and not keyword.iskeyword(metric) and metric not in _OF_REPORT:
        return f"{metric}={value}"
    return metric_in_mapping(metric, value)


def metric_in_mapping(metric: str, value: object = "...") -> str:
    """Return ``{'loss': 0.5}``, as a function returns a metric."""
    return f"{{{metric!r}: {value}}}"


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
        raise UsageError(f"{name}={written(value)} must be a finite number, e.g. {name}=0.5.")
    return number


def not_negative(name: str, value: object) -> float:
    """Return a finite number that is not negative."""
    if not 0 <= (number := _number(value)) < math.inf:
        raise UsageError(f"{name}={written(value)} must be a finite number from 0: write {name}=0 for none.")
    return number


def above_zero(name: str, value: object) -> float:
    """Return a positive, finite number."""
    if not 0 < (number := _number(value)) < math.inf:
        raise UsageError(f"{name}={written(value)} must be a positive, finite number, e.g. {name}=1.0.")
    return number


def weight_of(name: str, value: object) -> float:
    """Return a weight, from 1e-6 to 1e6: with others beyond, sums and parts of all weights lose their last digits."""
    if not 1e-6 <= (number := above_zero(name, value)) <= 1e6:
        raise UsageError(
            f"{name}={written(value)} must be from 1e-6 to 1e6: only their proportion counts, e.g. {name}=2."
        )
    return number


def seconds_of(name: str, value: object) -> float:
    """Return a positive duration in seconds, of 30 years at most: timers take no others."""
    seconds = _number(value.total_seconds() if isinstance(value, timedelta) else value)
    if not 0 < seconds < math.inf:
        raise UsageError(
            f"{name}={written(value)} must be a positive, finite number of seconds, or a timedelta: write {name}=3600."
        )
    if seconds > _LONGEST_S:
        raise UsageError(f"{name}={written(value)} is more than 30 years: write seconds, e.g. {name}=3600.")
    return seconds


def _number(value: object) -> float:
    """Return a number unchanged, NaN for any other value, and infinity for a number beyond the range of floats."""
    try:
        return float(value) if isinstance(value, SupportsFloat) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.inf


def count_of(name: str, value: object) -> int:
    """Return an integer from 0 to 2**53 - 1, which JSON and floats hold exactly."""
    if (number := _integer(value)) < 0:
        raise UsageError(f"{name}={written(value)} must be an integer from 0, e.g. {name}=3.")
    return _at_most(name, number, MOST)


def positive(name: str, value: object, example: object = 4, most: int | None = None) -> int:
    """Return a positive integer of at most ``most``, or 2**53 - 1; ``example`` is one of its size."""
    number = _integer(value)
    if number < 1:
        example = value if isinstance(value, str) and value.isdecimal() and int(value) else example
        raise UsageError(f"{name}={written(value)} must be a positive integer, e.g. {name}={example}.")
    return _at_most(name, number, MOST if most is None else most)


def workers_of(name: str, value: object) -> int:
    """Return a number of workers."""
    return positive(name, value, most=MOST_WORKERS)


def integer_of(name: str, value: object) -> int:
    """Return an integer from -(2**53 - 1) to 2**53 - 1."""
    if not isinstance(value, SupportsIndex) or isinstance(value, bool):
        raise UsageError(f"{name}={value!r} must be an integer, e.g. {name}=1.")
    number = value.__index__()
    _at_most(name, abs(number), MOST)
    return number


def _at_most(name: str, number: int, most: int) -> int:
    if number > most:
        raise UsageError(f"{name}={written(number)} is too large: it must be at most {most:,}.")
    return number


def written(value: object) -> str:
    """Return a value as it is written, but of a very long number how long it is: Python writes out none."""
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"(a number of {value.bit_length():,} bits)"
    return repr(value)


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


def as_unicode(text: str) -> str:
    """Return a text with the lone surrogates of undecodable bytes, which no journal can hold, as escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def json_bytes(value: object, enc_hook: Callable[[Any], Any] | None = None) -> bytes:
    """Return a value as JSON, with each text in it as ``as_unicode`` gives it: a user's scheduler may have made it."""
    try:
        return msgspec.json.encode(value, enc_hook=enc_hook)
    except UnicodeEncodeError:
        return msgspec.json.encode(_unicode_in(msgspec.to_builtins(value, str_keys=True, enc_hook=enc_hook)))


def _unicode_in(value: Any) -> Any:
    if isinstance(value, str):
        return as_unicode(value)
    if isinstance(value, dict):
        return {_unicode_in(name): _unicode_in(one) for name, one in value.items()}
    return [_unicode_in(one) for one in value] if isinstance(value, list | tuple) else value


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


def shown(value: Any) -> str:
    """Return a value as it would be written, or dots for one that is long."""
    text = written(value)
    return text if len(text) <= 60 and "<" not in text else "..."
