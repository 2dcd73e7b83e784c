"""The user's own functions of an ablation study, which make a variant of the data or of the network.

A trial knows a function by the digest of its code. A process knows the functions of the studies that it has described
or, in a worker, received.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from asyncsearch.errors import UsageError

OwnFunction = Callable[[Any], Any]
"""``function(data)`` or ``function(net)`` -> the same without what is left out."""

_known: dict[str, OwnFunction] = {}


def register(functions: Mapping[str, OwnFunction]) -> None:
    """Make functions known: digest -> function."""
    _known.update(functions)


def called(digest: str, name: str, given: Any) -> Any:
    """Return the variant that a function makes of data or of a network.

    Raises:
        UsageError: it is not known in this process, or returns nothing.
    """
    function = _known.get(digest)
    if function is None:
        raise UsageError(
            f"The function that leaves {name!r} out is not known in this process: build the same Ablation(...) before "
            "the trial, from the same code."
        )
    found = function(given)
    if found is None:
        raise UsageError(
            f"The function that leaves {name!r} out returned None for a {type(given).__name__}: let it return the "
            "variant, also where it changes in place what it is given."
        )
    return found


class SentWith:
    """A trainable as sent to the workers, with functions. Unpickling returns the trainable and registers them."""

    def __init__(self, trainable: Any, functions: Mapping[str, OwnFunction]) -> None:
        self.trainable, self.functions = trainable, dict(functions)
        self.__name__ = self.__qualname__ = str(getattr(trainable, "__qualname__", type(trainable).__qualname__))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.trainable, self.functions)


def _restored(trainable: Any, functions: Mapping[str, OwnFunction]) -> Any:
    register(functions)
    return trainable
