"""Values of parameters are JSON values, sequences among them: how they are made plain and shown.

Rule 1: pure. Rule 2: ``plain`` returns int, float, str, bool, None, list and dict only, never their subclasses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asyncsearch.sequences import parsing
from asyncsearch.sequences.base_sequence import Sequence
from asyncsearch.sequences.params import revive
from asyncsearch.values.json_values import (
    INT_MAX,
    INT_MIN,
    a_type,
    copy_plain,
    identity,
    integer,
    is_numpy_array,
    is_numpy_scalar,
    number,
    show,
)
from asyncsearch.values.json_values import plain as plain_constant

__all__ = [
    "INT_MAX",
    "INT_MIN",
    "a_type",
    "copy_plain",
    "identity",
    "integer",
    "is_numpy_array",
    "is_numpy_scalar",
    "number",
    "plain",
    "show",
    "show_plain",
]


def plain(value: Any) -> Any:
    """Return a copy made of plain JSON values: sequences in JSON form, tuples as lists, numpy scalars as Python's.

    Raises:
        SpaceError: JSON has no such value, or a sequence is malformed or has a domain in it.
    """
    return plain_constant(_without_sequences(value))


def show_plain(value: Any) -> str:
    """Return the code that makes a plain value; a sequence in JSON form is shown as the call that makes it."""
    return repr(revive(value))


def _without_sequences(value: Any) -> Any:
    if isinstance(value, Sequence):
        return value.to_json()
    if isinstance(value, Mapping):
        if parsing.is_tagged(value):
            return parsing.from_json(value).to_json()
        return {key: _without_sequences(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_sequences(item) for item in value]
    return value
