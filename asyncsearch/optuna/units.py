"""The reports of a trial as units of training, at whose ends a scheduler of asyncsearch pauses it, or stops it.

    step = trial.checkpoint(net=net, opt=opt)    the objects are as they were when the trial was paused
    trial.report(value, step)                    the end of a unit: saved here where that is due; may not return

The n-th report is the n-th unit, whatever its step: ``max_resource`` of the scheduler is a number of reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from asyncsearch.errors import UsageError

METRIC = "value"
"""The name of an objective's value, the first one of several, among asyncsearch's metrics."""


class ReportedUnits:
    """The units of one attempt of a trial."""

    def __init__(self, context: Any, steps: Sequence[int], *, must_pause: bool) -> None:
        """Begin where the attempt begins.

        Args:
            context: asyncsearch's trial.
            steps: those that earlier attempts have reported.
            must_pause: whether the scheduler pauses trials, which must be saved then.
        """
        self.reported: set[int] = set()
        """The steps that this attempt has reported."""
        self._context, self._steps, self._must_pause = context, sorted(steps), must_pause
        self._loop: Iterator[int] | None = None
        self._unit = 0
        """The one that the next report ends; 0 if there is none."""

    def begin(self, first_step: int, objects: Mapping[str, Any]) -> int:
        """Restore the objects, and return the step with which training goes on.

        Raises:
            UsageError: there are no objects, one cannot be saved, it was called before, or nothing says how many
                reports a trial makes.
        """
        if self._loop is not None:
            raise UsageError("trial.checkpoint() was called twice: name all objects that training changes in one call.")
        if not objects:
            raise UsageError(
                "trial.checkpoint() names no objects: write those that training changes, "
                "trial.checkpoint(model=model, optimizer=optimizer)."
            )
        if self.reported:
            raise UsageError("trial.checkpoint() comes after a report: call it before the loop.")
        if self._context.max_resource is None:
            raise UsageError(
                "trial.checkpoint() must know how many reports a trial makes: give the scheduler that number, e.g. "
                "scheduler=MedianStopping(max_resource=9), or leave trial.checkpoint() out, and nothing is saved."
            )
        self._loop = self._context.epochs(state=dict(objects))
        self._unit = next(self._loop, 0)
        done = self._context.resource
        return self._steps[done - 1] + 1 if 0 < done <= len(self._steps) else first_step

    def report(self, step: int, value: float) -> None:
        """End a unit.

        Raises:
            UsageError: the trial is to be paused and ``begin`` was not called, or it has trained all its units.
            TrialInterrupted: the trial is paused here, or stopped.
        """
        self.reported.add(step)
        if self._loop is None:
            if self._must_pause:
                raise UsageError(HOW_TO_PAUSE)
            self._unit += 1
            self._context.report({METRIC: value}, resource=self._unit)
            return
        if not self._unit:
            raise UsageError(
                f"trial.report({value:g}, {step}): the trial has made as many reports as the scheduler's max_resource "
                "says. End the loop there, or give the scheduler a larger max_resource."
            )
        self._context.report({METRIC: value}, resource=self._unit)
        self._unit = next(self._loop, 0)


HOW_TO_PAUSE = (
    "The scheduler pauses trials, and the objective does not say what it trains: write `first = "
    "trial.checkpoint(model=model, optimizer=optimizer)` before the loop and `for step in range(first, 27):`, or a "
    "scheduler that does not pause, such as ASHA(max_resource=27, variant='stopping')."
)
