"""Placeholders for values that are decided for each trial: the domains of a space.

The interface is declared here, below the space, so that sequences can contain domains without importing them.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable
from typing import Any


class Undecided(abc.ABC):
    """A value that is decided for each trial."""

    @abc.abstractmethod
    def examples(self) -> Iterable[Any]:
        """Return values that are valid only if all are: the values of a choice, the bounds of numbers."""

    @abc.abstractmethod
    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return the user's own functions of time in its values: name -> function."""

    @abc.abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return a description as JSON values."""
