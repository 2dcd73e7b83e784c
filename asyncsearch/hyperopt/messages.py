"""The messages from evaluators of points, whoever they are, to the thread that calls ``fmin``."""

from __future__ import annotations

import queue
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol


class Reply(Protocol):
    """Answers a question once."""

    def __call__(
        self, value: Any, facts: dict[str, Any] | None = None, /, *, state: str = "ok", is_durable: bool = False
    ) -> None:
        """Answer; ``facts`` are kept in the journal, before the answer is sent if it is to be durable."""


@dataclass(frozen=True, slots=True)
class PointQuestion:
    """An evaluator asks for a point, tells its end, or wants to know something."""

    who: tuple[Hashable, Hashable]
    """The trial of asyncsearch, and its lease."""
    kind: str
    arguments: list[Any]
    reply: Reply


@dataclass(frozen=True, slots=True)
class EvaluatorLost:
    """A trial of asyncsearch is no longer evaluated where it was."""

    trial: Hashable
    reason: str


@dataclass(frozen=True, slots=True)
class EvaluatorsEnded:
    """Nobody evaluates any more."""

    error: BaseException | None


@dataclass(frozen=True, slots=True)
class ShowRequest:
    """Something is to be shown by the calling thread."""

    show: Callable[[], object]


Message = PointQuestion | EvaluatorLost | EvaluatorsEnded | ShowRequest | None
"""None wakes the reader."""


class Evaluators(Protocol):
    """The evaluators of points: they ask for them in ``inbox``."""

    inbox: queue.SimpleQueue[Message]
    waiting: list[PointQuestion]
    """Who has asked for a point that there was not yet."""

    def close(self, *, now: bool = False) -> None:
        """Let them go; ``now``: whatever they evaluate."""
