"""What the thread that calls ``fmin`` hears from those who evaluate its points, whoever they are."""

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
    """One that evaluates asks for a point, tells its end, or wants to know something."""

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
    """Those who evaluate points: they ask for them in ``inbox``."""

    inbox: queue.SimpleQueue[Message]
    waiting: list[PointQuestion]
    """Who has asked for a point that there was not yet."""

    def close(self, *, now: bool = False) -> None:
        """Let them go; ``now``: whatever they evaluate."""
