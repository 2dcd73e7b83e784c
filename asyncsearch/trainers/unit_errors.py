"""Errors in a unit of one trainer beside others: it is that trainer that fails.

Rule: this module imports no framework, since the runner imports it.
"""

from __future__ import annotations

import functools
from typing import Any

from asyncsearch.events import MEMORY_KINDS

_OF_ALL = (*MEMORY_KINDS, "AcceleratorError")


def is_of_all(error: Exception) -> bool:
    """Return whether an error concerns all that the process trains: too little memory, or a device that has failed."""
    return type(error).__name__ in _OF_ALL


def fail(trainer: Any, error: Exception) -> None:
    """Let an error be that of a trainer: its ``evaluate`` raises it."""
    trainer.evaluate = functools.partial(_raise, error)


def train_or_fail(trainer: Any) -> None:
    """Train a unit by itself; what it raises is its own."""
    try:
        trainer.train()
    except Exception as error:
        if is_of_all(error):
            raise
        fail(trainer, error)


def _raise(error: Exception) -> None:
    raise error
