"""Values that a process computes once: data, tokenizers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from asyncsearch.errors import UsageError

T = TypeVar("T")

_values: dict[Hashable, Any] = {}


def once(function: Callable[..., T], *args: Any) -> T:
    """Return ``function(*args)``, computed by the first call with an equal function and equal arguments.

    Two functions are equal if they have the same name, the same code and the same captured values. Exceptions are not
    cached.

    Raises:
        UsageError: it is not a function, or an argument or a captured value cannot be hashed.
    """
    if not callable(function):
        raise UsageError(
            f"once() is given {type(function).__name__}, the result of a call: pass the function itself, write "
            "trial.once(load_data) or trial.once(load_data, argument)."
        )
    try:
        key = (_identity(function), args)
        hash(key)
    except TypeError as error:
        name = getattr(function, "__qualname__", repr(function))
        raise UsageError(
            f"once({name}, ...) cannot tell its calls apart: {error}. Pass what it depends on as arguments that can be "
            "hashed: numbers, text, tuples of them."
        ) from None
    if key not in _values:
        _values[key] = function(*args)
    value: T = _values[key]
    return value


def _identity(function: Callable[..., Any]) -> Hashable:
    code = getattr(function, "__code__", None)
    if code is None:
        return function
    cells = getattr(function, "__closure__", None) or ()
    # A lambda in a trainable is a new object for each trial: its code identifies it, and its captured values
    # distinguish two lambdas of one line.
    captured = tuple(cell.cell_contents for cell in cells)
    defaults = getattr(function, "__defaults__", None)
    return (function.__module__, function.__qualname__, code, captured, defaults)
