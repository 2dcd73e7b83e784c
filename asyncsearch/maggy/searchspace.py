"""Maggy's ``Searchspace``, and the space that it stands for here."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.space import Space, choice, randint, uniform
from asyncsearch.space.domains import Domain

_TYPES = ("DOUBLE", "INTEGER", "DISCRETE", "CATEGORICAL")
_EXAMPLE = (
    "Searchspace(pool=('INTEGER', [2, 8]), dropout=('DOUBLE', [0.01, 0.99]), act=('CATEGORICAL', ['relu', 'elu']))"
)


class Searchspace:
    """Names of hyper-parameters, each with a type, in any case, and its values: both ends of a range belong to it.

    Example::

        sp = Searchspace(kernel=("INTEGER", [2, 8]), dropout=("DOUBLE", [0.01, 0.99]))
        sp.add("optimizer", ("CATEGORICAL", ["adam", "sgd"]))
    """

    DOUBLE, INTEGER, DISCRETE, CATEGORICAL = _TYPES

    def __init__(self, **parameters: Any) -> None:
        self._types: dict[str, str] = {}
        for name, value in parameters.items():
            self.add(name, value)

    def add(self, name: str, value: Any) -> None:
        """Add a hyper-parameter by a pair of its type and its values.

        Raises:
            ValueError: the name is taken, or the pair is none; as a ``UsageError``, which says what to write.
        """
        if getattr(self, name, None) is not None:
            raise SearchspaceError(f"Searchspace: the name {name!r} is taken: write another name.")
        kind, values = _pair(name, value)
        self._types[name] = kind
        setattr(self, name, values)

    def names(self) -> dict[str, str]:
        """Return name -> type."""
        return self._types

    def get(self, name: str, default: Any = None) -> Any:
        """Return the values of a hyper-parameter; ``default`` if there is none of the name."""
        return getattr(self, name) if name in self._types else default

    def to_dict(self) -> dict[str, tuple[str, list[Any]]]:
        """Return name -> (type, values), from which ``Searchspace(**found)`` makes an equal one."""
        return {name: (kind, getattr(self, name)) for name, kind in self._types.items()}

    def keys(self) -> list[str]:
        """Return the names, in their order."""
        return list(self._types)

    def values(self) -> list[tuple[str, list[Any]]]:
        """Return (type, values) of each, in the order of the names."""
        return list(self.to_dict().values())

    def items(self) -> Iterator[dict[str, Any]]:
        """Return an iterator over dictionaries with ``name``, ``type`` and ``values``."""
        return iter(self)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter([{"name": name, "type": kind, "values": self.get(name)} for name, kind in self._types.items()])

    def __contains__(self, name: object) -> bool:
        return name in self._types

    def json(self) -> str:
        """Return ``to_dict`` as JSON."""
        return json.dumps(self.to_dict(), sort_keys=True)

    __str__ = json

    def get_random_parameter_values(self, num: int) -> list[dict[str, Any]]:
        """Return ``num`` configurations, drawn by Python's global generator."""
        draw = {"DOUBLE": random.uniform, "INTEGER": random.randint}
        return [
            {
                name: draw[kind](*self.get(name)) if kind in draw else random.choice(self.get(name))
                for name, kind in self._types.items()
            }
            for _ in range(num)
        ]

    def to_space(self) -> Space:
        """Return the same space as one of asyncsearch.

        Raises:
            UsageError: it is empty.
        """
        if not self._types:
            raise UsageError(
                f"The search space is empty: write searchspace={_EXAMPLE}, or optimizer=None for runs without "
                "hyper-parameters."
            )
        return Space({name: self._domain(name) for name in self._types})

    def _domain(self, name: str) -> Domain:
        kind, values = self._types[name], self.get(name)
        if kind == "DOUBLE":
            return uniform(*values)
        return randint(*values) if kind == "INTEGER" else choice(*values)


class SearchspaceError(UsageError, ValueError):
    """A search space is described wrongly; Maggy raises a ValueError."""


def _pair(name: str, value: Any) -> tuple[str, list[Any]]:
    if not isinstance(value, tuple | list) or len(value) != 2 or not isinstance(value[0], str):
        raise SearchspaceError(f"{name}={value!r} is no pair of a type and its values: write {_EXAMPLE}.")
    kind, values = value[0].upper(), value[1]
    if kind not in _TYPES:
        raise SearchspaceError(f"{name}: the type {value[0]!r} is none of {', '.join(_TYPES)}.")
    if not isinstance(values, list | tuple) or not values:
        raise SearchspaceError(f"{name}: {values!r} is no list of values: write {_EXAMPLE}.")
    if kind in ("DOUBLE", "INTEGER"):
        allowed = (int,) if kind == "INTEGER" else (int, float)
        is_right = len(values) == 2 and all(type(end) in allowed for end in values) and values[0] < values[1]
        if not is_right:
            words = "two integers" if kind == "INTEGER" else "two numbers"
            raise SearchspaceError(f"{name}: {kind} needs {words}, the lower one first, and got {values!r}.")
    return kind, list(values)
