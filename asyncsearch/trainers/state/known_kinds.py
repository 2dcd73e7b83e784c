"""Finds the kind of an object among those of the frameworks that are imported, and of ``state_dict``."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from asyncsearch.trainers.state.state_kinds import CannotSaveError, StateKind, has_methods


def kind_of(value: Any) -> StateKind | None:
    """Return the kind of an object; None if it is a plain value or a collection, or nothing that is known.

    Raises:
        CannotSaveError: it is known that it cannot be saved.
    """
    if isinstance(value, ModuleType):
        raise CannotSaveError(f"is the module {value.__name__}: global generators are saved without being named.")
    for find in _finders():
        found = find(value)
        if found is not None:
            return found
    if not isinstance(value, type) and has_methods(value, "state_dict", "load_state_dict"):
        return _STATE_DICT
    return None


def _finders() -> list[Callable[[Any], StateKind | None]]:
    """Return the functions that know the objects of the frameworks that are imported, the more special ones first."""
    found: list[Callable[[Any], StateKind | None]] = [find_python]
    if "keras" in sys.modules:  # before torch: on that backend a Keras layer is a torch module, too
        from asyncsearch.trainers.state.keras_state import find_keras

        found.append(find_keras)
    if "torch" in sys.modules:
        from asyncsearch.trainers.state.torch_state import find_torch

        found.append(find_torch)
    if "sklearn.base" in sys.modules:  # its module can unpickle, and no other training needs that
        from asyncsearch.trainers.state.sklearn_state import find_sklearn

        found.append(find_sklearn)
    if "numpy" in sys.modules:
        from asyncsearch.trainers.state.numpy_state import find_numpy

        found.append(find_numpy)
    return found


_STATE_DICT = StateKind(
    "state_dict", lambda value: value.state_dict(), lambda value, state: value.load_state_dict(state) and None
)


_RANDOM = StateKind("random.Random", lambda value: value.getstate(), lambda value, state: value.setstate(state))


def find_python(value: Any) -> StateKind | None:
    """Return the kind of a generator."""
    if isinstance(value, random.SystemRandom):
        raise CannotSaveError("is a SystemRandom, which has no state: write random.Random(trial.seed).")
    return _RANDOM if isinstance(value, random.Random) else None
