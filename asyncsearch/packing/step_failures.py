"""Errors in the common training of several members: whose each of them is."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch

from asyncsearch.errors import UsageError
from asyncsearch.events import MEMORY_KINDS


@dataclass(frozen=True)
class FailedStep:
    """Members of one group that a step could not train."""

    members: list[Any]
    error: Exception
    is_stack: bool
    """Whether they were one computation: their own models and optimizers are then as they were written last. Else a
    member has failed by itself."""

    @property
    def words(self) -> str:
        """Why it could not."""
        return in_words(self.error)


def in_words(error: Exception) -> str:
    """Return the message of an error, with its class where the message is not ours."""
    kind = "" if isinstance(error, UsageError) else f"{type(error).__name__}: "
    return f"{kind}{error}".rstrip(".")


def is_of_all(error: Exception) -> bool:
    """Return whether an error concerns all that the process trains: too little memory, or a device that has failed."""
    device_errors = getattr(torch, "AcceleratorError", ())
    return type(error).__name__ in MEMORY_KINDS or isinstance(error, device_errors)


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
