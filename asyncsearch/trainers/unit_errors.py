"""Errors in a unit of one trainer beside others: it is that trainer that fails.

Rule: this module imports no framework, since the runner imports it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from asyncsearch.events import MEMORY_KINDS
from asyncsearch.trainers.turns import begin_turn, keep_turn, turn_of

_OF_ALL = (*MEMORY_KINDS, "AcceleratorError")


def is_of_all(error: Exception) -> bool:
    """Return whether an error concerns all that the process trains: too little memory, or a device that has failed."""
    return type(error).__name__ in _OF_ALL


def fail(trainer: Any, error: Exception) -> None:
    """Let an error be that of a trainer: its ``evaluate`` raises it."""
    trainer.evaluate = functools.partial(_raise, error)


def train_or_fail(trainer: Any) -> None:
    """Train a unit by itself, in its own turn; what it raises is its own."""
    begin_turn(trainer)
    try:
        trainer.train()
    except Exception as error:
        if is_of_all(error):
            raise
        fail(trainer, error)
    keep_turn(trainer)


def evaluated(trainer: Any) -> Mapping[str, Any] | Exception:
    """Return what a trainer's ``evaluate`` returns in its own turn, or what it raises, which is its own.

    Raises:
        Exception: one that concerns all.
    """
    try:
        with turn_of(trainer):
            found: Mapping[str, Any] = trainer.evaluate()
    except Exception as error:
        if is_of_all(error):
            raise
        return error
    return found


def _raise(error: Exception) -> None:
    raise error
