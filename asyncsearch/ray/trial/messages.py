"""What a trial asks the driver of a search: whether it goes on, where stoppers or populations of the program decide."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from asyncsearch.trainable import TrialInterrupted


class FinishedTrial(TrialInterrupted):
    """Unwinds a trial that has come to the end that the program has set; it is complete."""


class ExploitingTrial(TrialInterrupted):
    """Unwinds a trial that goes on from the checkpoint of another one, with another configuration."""

    def __init__(self, exploit: Mapping[str, Any]) -> None:
        super().__init__(f"it goes on from trial-{exploit['donor']}")
        self.exploit = exploit


class DriverCalls:
    """Asks on behalf of one trial."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def begin(self, params: Mapping[str, Any], *, goes_on: bool) -> dict[str, Any] | None:
        """Tell that a trial begins, or goes on from a checkpoint; return what it has taken over, None if nothing."""
        answer = json.loads(self._context.ask(json.dumps(["begin", params, goes_on]).encode()))
        found: dict[str, Any] | None = answer["exploit"]
        return found

    def report(self, result: Mapping[str, Any], number: int, *, has_checkpoint: bool) -> TrialInterrupted | None:
        """Tell a result with its number, and return what ends the trial with it. None if it goes on."""
        question = ["report", plain(result), has_checkpoint, number]
        answer = json.loads(self._context.ask(json.dumps(question).encode()))
        return verdict_of(answer)


def plain(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a result that JSON can hold."""
    return {name: value for name, value in result.items() if type(value) in (bool, int, float, str)}


def verdict_of(answer: Mapping[str, Any]) -> TrialInterrupted | None:
    """Return the exception that ends a trial, by the answer of the driver."""
    if answer.get("stop"):
        return FinishedTrial(answer["reason"])
    return ExploitingTrial(answer["exploit"]) if answer.get("exploit") else None
