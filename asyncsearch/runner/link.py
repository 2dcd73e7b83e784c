"""The interface between a trial's context and what transports its reports and checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from asyncsearch.errors import StoreError
from asyncsearch.runner.failures import exception_text
from asyncsearch.runner.protocol import Amendment, SaveFailed
from asyncsearch.runner.stopwatch import Stopwatch


class Link(Protocol):
    """Transport of a trial's context: sends reports, and receives stops and amendments."""

    @property
    def stopwatch(self) -> Stopwatch:
        """Measures what the process of the trial does, for it and for those that train together with it."""

    def report(self, resource: int, metrics: dict[str, float], *, is_awaited: bool = False) -> None:
        """Send a report; ``await_verdict`` follows if it is awaited."""

    def await_verdict(self, resource: int, timeout_s: float) -> int | None:
        """Wait until all that follows from a report was told, or the time is over; return where the next one waits.

        None: nowhere, besides a pause.
        """

    def stop_reason(self) -> str | None:
        """Read new messages, and return the reason of a stop request. None if there is none."""

    def amendments(self) -> Sequence[Amendment]:
        """Return the amendments that ``stop_reason`` or ``folder`` has read, each once."""

    def folder(self, stage: int, resource: int, *, is_needed: bool = False, failed: str = "") -> Path:
        """Return the path for a new checkpoint, where nothing exists yet.

        Args:
            stage: index into the stages of the training.
            resource: units of training done.
            is_needed: whether to wait until there is a place.
            failed: why the disk of the place before this one could not take the checkpoint. Empty if there was none.

        Raises:
            StoreError: there is no place for the checkpoint, and it is not needed.
        """

    def saved(self, stage: int, resource: int, *, is_last: bool) -> None:
        """Accept a written checkpoint, at the end of the training or before."""

    def save_failed(self, stage: int, resource: int, error: Exception) -> None:
        """Record that there is no checkpoint, and that training continues."""

    def close(self, refusal: str) -> None:
        """End the training: from now on every call raises a ``UsageError`` of these words, and sends nothing."""


def shown_failure(stage: int, resource: int, error: Exception, lane: int = 0) -> SaveFailed:
    """Print that a checkpoint could not be saved, and return the message for the agent."""
    is_store = isinstance(error, StoreError)
    text = str(error) if is_store else exception_text(error)
    sys.stderr.write(f"asyncsearch: there is no checkpoint at {resource}, and training goes on.\n{text}\n")
    return SaveFailed(stage, resource, text, "store" if is_store else "", lane)
