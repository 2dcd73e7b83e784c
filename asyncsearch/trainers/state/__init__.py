"""``trial.epochs(state={...})``: how the state of each kind of object is saved and restored in place.

A kind has two functions: one gets the state, one puts it back. A module for a framework is imported only where that
framework is imported already, so that a runner imports none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from asyncsearch.errors import UsageError


class PickledState(NamedTuple):
    """The pickle of an object that only ``pickle`` restores."""

    data: bytes


class StateKind(NamedTuple):
    """How to save and restore one kind of object."""

    name: str
    get: Callable[[Any], Any]
    """Returns the state: plain values, arrays and tensors, in dictionaries, lists and tuples."""
    put: Callable[[Any, Any], None]
    """Puts such a state into an object of the same class."""


class CannotSaveError(UsageError):
    """An object has no state that can be saved; the message continues the words "state['net'] "."""


def is_of(module: str, names: str, value: Any) -> bool:
    """Return whether a value is an instance of a framework's class "a.b.C", without importing the framework."""
    found: Any = sys.modules.get(module)
    for name in names.split("."):
        found = getattr(found, name, None)
    return isinstance(found, type) and isinstance(value, found)


def has_methods(value: Any, *names: str) -> bool:
    """Return whether a value has all these methods."""
    return all(callable(getattr(value, name, None)) for name in names)


def advice(value: Any) -> str:
    """Return why an object of an unknown kind cannot be saved, and the line to write instead."""
    is_a = f"is of type {type(value).__qualname__}, "
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return (
            f"is {value!r:.80}, a value that no checkpoint can put back into your variable: keep it in a dictionary, "
            'counters = {"step": 0}, and write state={"counters": counters}.'
        )
    if is_of("torch.utils.data", "DataLoader", value) or is_of("tensorflow", "data.Dataset", value):
        return (
            is_a + "whose position cannot be saved: make it or iterate over it anew in each epoch. The generator that "
            "shuffles it is saved, the global one without being named."
        )
    if hasattr(value, "__next__"):
        return is_a + "an iterator, whose position cannot be read: make it anew in each epoch."
    if has_methods(value, "save_model", "load_model"):
        return is_a + "which saves itself: write trial.epochs(save=model.save_model, load=model.load_model)."
    return (
        is_a + "which has no state_dict() and load_state_dict(state): write both, or write "
        "trial.epochs(save=..., load=...)."
    )
