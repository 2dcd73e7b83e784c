"""What stands for a value that each trial decides anew: the domains of a space are such values.

It is declared here, below the space, so that sequences can hold domains without knowing them.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable
from typing import Any


class Undecided(abc.ABC):
    """A value that is not decided yet."""

    @abc.abstractmethod
    def examples(self) -> Iterable[Any]:
        """Return values whose legality decides that of all: the values of a choice, the bounds of numbers."""

    @abc.abstractmethod
    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return the user's own functions of time in its values: name -> function."""

    @abc.abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return a description as JSON values."""
