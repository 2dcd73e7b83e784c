"""Generators of Python's own ``random``."""

from __future__ import annotations

import random
from typing import Any

from asyncsearch.trainers.state.state_kinds import CannotSaveError, StateKind

_RANDOM = StateKind("random.Random", lambda value: value.getstate(), lambda value, state: value.setstate(state))


def find_python(value: Any) -> StateKind | None:
    """Return the kind of a generator."""
    if isinstance(value, random.SystemRandom):
        raise CannotSaveError("is a SystemRandom, which has no state: write random.Random(trial.seed).")
    return _RANDOM if isinstance(value, random.Random) else None
