"""Conditions: a parameter with conditions exists only where all of them hold.

Rule 1: pure. Rule 2: knows nothing of domains; ``dependencies.py`` checks conditions against a whole space.
"""

from __future__ import annotations

import keyword
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from asyncsearch.errors import SpaceError
from asyncsearch.sequences import revive
from asyncsearch.space.parameter_values import copy_plain, identity, show_plain, sketched, with_objects


@dataclass(frozen=True)
class Condition:
    """The parameter ``parent`` exists and has one of ``values``."""

    parent: str
    """Dotted name, from the top of the space."""
    values: tuple[Any, ...] = field(compare=False)
    identities: frozenset[Hashable] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "identities", frozenset(map(identity, self.values)))

    def holds(self, flat: Mapping[str, Any]) -> bool:
        """Return whether it holds where the active parameters have these values (dotted name -> plain value)."""
        return self.parent in flat and identity(flat[self.parent]) in self.identities

    def holds_by_identity(self, identities: Mapping[str, Hashable]) -> bool:
        """Return ``holds`` where the active parameters have these identities of values, each computed once."""
        return self.parent in identities and identities[self.parent] in self.identities

    def __str__(self) -> str:
        return f"{self.parent} is {' or '.join(map(show_plain, self.values))}"

    def argument(self) -> Any:
        """Return the value that ``when`` was given, or the tuple of values."""
        values = tuple(map(revive, self.values))
        return values[0] if len(values) == 1 else values


def parse_conditions(given: Mapping[str, Any]) -> tuple[Condition, ...]:
    """Read the arguments of ``when``: a tuple means any of its values, everything else is one value.

    Raises:
        SpaceError: there are none, a tuple is empty, or a value is not a JSON value.
    """
    if not given:
        raise SpaceError("when() needs a condition, e.g. .when(optimizer='sgd').")
    return tuple(_condition(parent, value) for parent, value in given.items())


def merge_conditions(first: tuple[Condition, ...], second: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """Return conditions that hold where all of both hold, one for each parent.

    Raises:
        SpaceError: two of them exclude each other.
    """
    merged = {condition.parent: condition for condition in first}
    for condition in second:
        known = merged.get(condition.parent)
        merged[condition.parent] = condition if known is None else _both(known, condition)
    return tuple(merged.values())


def show_conditions(conditions: tuple[Condition, ...]) -> str:
    """Return the call that makes them: ``.when(optimizer='sgd')``, or nothing."""
    if not conditions:
        return ""
    if all(c.parent.isidentifier() and not keyword.iskeyword(c.parent) for c in conditions):
        return f".when({', '.join(f'{c.parent}={c.argument()!r}' for c in conditions)})"
    return f".when(**{ {c.parent: c.argument() for c in conditions}!r})"


def conditions_to_json(conditions: tuple[Condition, ...]) -> dict[str, list[Any]]:
    """Return dotted parent name -> the list of values that it may have."""
    return {condition.parent: copy_plain(list(condition.values)) for condition in conditions}


def _condition(parent: str, value: Any) -> Condition:
    values = value if isinstance(value, tuple) else (value,)
    if not values:
        raise SpaceError(f"when({parent}=()) can never hold: write a value, or a tuple of values.")
    try:
        return Condition(parent, tuple(sketched(with_objects((item,))[0]) for item in values))
    except SpaceError as error:
        raise SpaceError(f"when({parent}=...): {error}") from None


def _both(first: Condition, second: Condition) -> Condition:
    values = tuple(value for value in first.values if identity(value) in second.identities)
    if not values:
        raise SpaceError(f"{first} and {second} exclude each other: the parameter could never exist. Drop one of them.")
    return Condition(first.parent, values)
