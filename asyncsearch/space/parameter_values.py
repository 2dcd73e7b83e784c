"""Values of parameters are JSON values, sequences among them: how they are made plain and shown.

Rule 1: pure. Rule 2: ``plain`` returns int, float, str, bool, None, list and dict only, never their subclasses.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from asyncsearch.errors import SpaceError
from asyncsearch.sequences import parsing
from asyncsearch.sequences.base_sequence import Sequence
from asyncsearch.sequences.objects import named_objects
from asyncsearch.sequences.params import revive
from asyncsearch.sequences.templates import Undecided, sketch
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
    "has_undecided",
    "identity",
    "integer",
    "is_numpy_array",
    "is_numpy_scalar",
    "number",
    "plain",
    "show",
    "show_plain",
    "sketched",
    "with_objects",
]


def plain(value: Any) -> Any:
    """Return a copy made of plain JSON values: sequences in JSON form, tuples as lists, numpy scalars as Python's.

    Raises:
        SpaceError: JSON has no such value, or a sequence is malformed or has a domain in it.
    """
    return plain_constant(_without_sequences(value))


def with_objects(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return values in which what JSON lacks is an object with a name; texts and numbers stay, also those refused.

    Raises:
        SpaceError: one of the objects comes twice.
    """
    places = [at for at, value in enumerate(values) if _is_object(value)]
    named = dict(zip(places, named_objects([values[at] for at in places]), strict=True))
    return tuple(named.get(at, value) for at, value in enumerate(values))


def sketched(value: Any) -> Any:
    """Return the plain value by which a value is chosen: of a sequence or dictionary with domains in it, a sketch.

    Raises:
        SpaceError: JSON has no such value.
    """
    if isinstance(value, Sequence) and value.is_template:
        return sketch(value)
    return plain(_without_domains(value) if isinstance(value, Mapping) else value)


def _without_domains(value: Any) -> Any:
    """Return a dictionary in which the code that makes a domain stands for it."""
    if isinstance(value, Mapping) and not parsing.is_tagged(value):
        return {name: _without_domains(item) for name, item in value.items()}
    is_open = isinstance(value, Undecided) or (isinstance(value, Sequence) and value.is_template)
    return {"domain": repr(value)} if is_open else value


def _is_object(value: Any) -> bool:
    if isinstance(value, bool | int | float | str | None) and not isinstance(value, enum.Enum):
        return False
    if has_undecided(value) or _is_meant_as_sequence(value):
        return False
    try:
        plain(value)
    except SpaceError:
        return True
    return False


def _is_meant_as_sequence(value: Any) -> bool:
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return parsing.is_tagged(value) or any(map(_is_meant_as_sequence, items))


def has_undecided(value: Any) -> bool:
    """Return whether there is a domain, or a sequence with one, anywhere in a value."""
    if isinstance(value, Sequence):
        return value.is_template
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return isinstance(value, Undecided) or any(map(has_undecided, items))


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
