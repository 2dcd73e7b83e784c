"""A step of a pack that could not train some members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from asyncsearch.errors import UsageError


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
