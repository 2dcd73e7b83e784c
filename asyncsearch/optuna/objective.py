"""A program's objective as a function of asyncsearch's trial, which a worker calls.

What a trial draws, reports and sets goes to the driver over the worker's stream (``driver_line``, ``answering``).
"""

from __future__ import annotations

import contextvars
import traceback
from collections.abc import Callable
from typing import Any

from optuna.study import Study
from optuna.trial import Trial, TrialState

from asyncsearch.optuna.drawn_ahead import AskedOrder
from asyncsearch.optuna.driver_line import DriverLine, UnwantedError, open_line
from asyncsearch.optuna.returned import ObjectiveEnd, end_by_error, end_by_value
from asyncsearch.optuna.units import METRIC, ReportedUnits
from asyncsearch.optuna.worker_trial import WorkerTrial
from asyncsearch.programs.changes import Watch, here
from asyncsearch.programs.raised import travels
from asyncsearch.trial import UNWANTED

sent_study: contextvars.ContextVar[Study | None] = contextvars.ContextVar("sent_study", default=None)
"""The study whose objective is being pickled for the workers: it asks the driver there."""


class NoValueError(Exception):
    """An objective returned what is no value, so that its trial has failed."""


class Objective:
    """A program's objective as a function of asyncsearch's trial."""

    def __init__(self, function: Callable[[Trial], Any], study: Any, pauses: bool | None = None) -> None:
        """Begin.

        Args:
            function: the program's own.
            study: is a ``WorkerStudy`` once it is unpickled.
            pauses: whether a scheduler judges the reports, and pauses trials. None if none judges them.
        """
        self.function, self._study, self._pauses = function, study, pauses
        self._home = here()
        self._is_watched = True
        self._known_order: tuple[object, AskedOrder] | None = None
        """In which order trials ask, as the launch of a worker in front was told last. None before its first trial."""
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, context: Any) -> Any:
        line, known = DriverLine(context), self._known_order
        try:
            frozen, ahead = line.begin(known[1] if known is not None and known[0] is context.launch else None)
        except UnwantedError:
            return context.stop(UNWANTED)
        if self._pauses is None:
            self._known_order = context.launch, ahead.order
        line.trial = trial = WorkerTrial(self._study, frozen, ahead)
        if self._pauses is not None:
            line.units = ReportedUnits(context, [*frozen.intermediate_values], must_pause=self._pauses)
        with open_line(line):
            watch, self._is_watched = Watch(self.function, self._home) if self._is_watched else None, False
            ended = self._run(trial)
            if watch is not None and (names := watch.changed()):
                line.tell("changed", names)
        return self._end(context, line, ended)

    def _run(self, trial: WorkerTrial) -> ObjectiveEnd:
        try:
            return end_by_value(self.function(trial))
        except Exception as error:
            frames = error.__traceback__ and error.__traceback__.tb_next
            text = "".join(traceback.format_exception(type(error), error, frames))
            return end_by_error(error, text)

    def _end(self, context: Any, line: DriverLine, ended: ObjectiveEnd) -> dict[str, Any]:
        """Tell the study, and end asyncsearch's trial in the same way: nothing is left to wait for."""
        line.tell("tell", *(ended if travels(ended.error) else ended._replace(error=None)))
        state = ended.state_in(self._study)
        if state is TrialState.FAIL:
            raise ended.error or NoValueError(f"the objective returned {ended.shown}, which is no value of this study")
        if state is TrialState.PRUNED:
            words = str(ended.error or "")
            context.stop(f"pruned: {words}" if words else "pruned")
        assert ended.numbers is not None, "else the study lets it fail"
        names = [METRIC, *[f"{METRIC}_{number}" for number in range(1, len(ended.numbers))]]
        return dict(zip(names, ended.numbers, strict=True))
