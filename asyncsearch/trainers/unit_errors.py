"""Errors in a unit of one trainer beside others: it is that trainer that fails.

Rule: this module imports no framework, since the runner imports it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from asyncsearch.events import is_of_all
from asyncsearch.trainers.turns import begin_turn, keep_turn, turn_of


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
