"""The line from the trial that runs in this process to the driver: questions, words, and notes that go with them.

One trial at a time runs in a process, so a study that the objective has from its closure asks on behalf of that one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from optuna.trial import FrozenTrial, Trial

from asyncsearch.errors import UsageError
from asyncsearch.optuna.drawn_ahead import Ahead, AskedOrder
from asyncsearch.optuna.messages import BEGIN_KIND, ValueCodec
from asyncsearch.optuna.units import METRIC, ReportedUnits


class UnwantedError(Exception):
    """A trial came to a study that has all it wants, or to a run that no ``optimize`` uses."""


class NotBegunError(Exception):
    """A trial came to a worker after its study had ended."""


class DriverLine:
    """The way from one trial to the driver."""

    def __init__(self, context: Any) -> None:
        """Begin; ``context``: asyncsearch's trial."""
        self.trial: Trial | None = None
        """None until it has begun."""
        self.units: ReportedUnits | None = None
        """None: no scheduler judges the reports."""
        self._context, self._codec = context, ValueCodec()
        self._resource = 0
        self._noted: list[Any] = []

    def begin(self, known: AskedOrder | None) -> tuple[FrozenTrial, Ahead]:
        """Return the trial, and values that it may use.

        Args:
            known: the order of which the driver has told this process last; it tells what has begun since by itself.
                None: no trial has begun here, so this one asks.

        Raises:
            NotBegunError: the study has ended.
            UnwantedError: it has all the trials that it wants.
        """
        if known is None:
            frozen, number, names, internals = self.ask(BEGIN_KIND, 0)
        else:
            frozen, number, names, internals = self._answered(self._context.unasked_answer())
        order = (known or AskedOrder()) if names is None else AskedOrder(number, tuple(names))
        if order.number != number:  # a trial was told another order, and has ended before it had read that
            return self.begin(None)
        return frozen, Ahead(order, internals)

    def ask(self, kind: str, *arguments: Any) -> Any:
        """Ask the driver, and return its answer.

        Raises:
            Exception: what the study, its sampler or its pruner raised there.
            NotBegunError: the study has ended.
            UnwantedError: it has all the trials that it wants.
        """
        return self._answered(self._context.ask(self._content(kind, arguments)))

    def _answered(self, answer: bytes) -> Any:
        state, value = self._codec.loads(answer)
        if state == "unwanted":
            raise UnwantedError
        if state == "over":
            raise NotBegunError(f"its study had ended: {value}")
        if state == "error":
            raise value
        return value

    def tell(self, kind: str, *arguments: Any) -> None:
        """Tell the driver, without waiting."""
        self._context.ask(self._content(kind, arguments), is_awaited=False)

    def note(self, kind: str, *arguments: Any) -> None:
        """Tell the driver what it can foresee, together with what it is asked or told next."""
        self._noted.append([kind, *arguments])

    def note_used(self) -> None:
        """Note that the trial has taken the next of the values that came when it began."""
        if self._noted and self._noted[-1][0] == "used":
            self._noted[-1][1] += 1
        else:
            self.note("used", 1)

    def _content(self, kind: str, arguments: tuple[Any, ...]) -> bytes:
        noted, self._noted = self._noted, []
        return self._codec.dumps(["several", *noted, [kind, *arguments]] if noted else [kind, *arguments])

    def show(self, step: int, value: float) -> None:
        """Let the report be judged, or appear in live tables and logs where its step is higher than all before."""
        if self.units is not None:
            self.units.report(step, value)
        elif step + 1 > self._resource:
            self._resource = step + 1
            self._context.report({METRIC: value}, resource=step + 1)


_lines: list[DriverLine] = []
"""That of the present trial; empty between trials."""


@contextlib.contextmanager
def open_line(line: DriverLine) -> Iterator[None]:
    """Let the study and the trial of this process use a line."""
    _lines.append(line)
    try:
        yield
    finally:
        _lines.remove(line)


def present_line() -> DriverLine:
    """Return the line of the present trial.

    Raises:
        UsageError: no trial runs.
    """
    if not _lines:
        raise UsageError(
            "No trial runs here now, so nobody asks the driver for the study: use it inside the objective."
        )
    return _lines[-1]


def refused(error: UsageError) -> UsageError:
    """Return an error of this project, to be raised, by which ``optimize`` ends: the driver is told of it first.

    An objective that catches every exception would else make a value of it, and the search would go on.
    """
    if _lines:
        with contextlib.suppress(NotBegunError, UnwantedError):
            _lines[-1].ask("refuse", error)
    return error


def is_on_worker() -> bool:
    """Return whether an objective runs in this process, so that a study that it makes is Optuna's own affair."""
    return bool(_lines)
