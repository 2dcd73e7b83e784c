"""A lane's stages as one line of units, with the due saves and pauses. Pure.

Terms: ``done`` is a number of trained units. A checkpoint at ``done`` belongs to the node of the stage that ends or
continues there; the next unit belongs to the stage that begins or continues there.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

from asyncsearch.actions import CutWork, SaveAt
from asyncsearch.errors import UsageError
from asyncsearch.runner.protocol import Amendment
from asyncsearch.trainable import ReportError
from asyncsearch.trial import is_end
from asyncsearch.work import Stage

_RESOURCES_END = 2**53
"""Upper bound (exclusive) of resources, as in the contract in ``rpc/``."""


class LaneTimeline:
    """The work of a lane, as assigned and amended."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = tuple(stages)
        self.start = self.stages[0].start
        self._ends = [math.inf if (end := _end_of(stage)) is None else end for stage in self.stages]
        self._points: set[int] = set()
        self._cut = math.inf
        self._kept = self.start
        """Resource of the newest checkpoint, loaded or saved."""

    @property
    def end(self) -> int | None:
        """Resource at which the last stage ends; None: when the user's function returns."""
        return _end_of(self.stages[-1])

    @property
    def is_evaluation(self) -> bool:
        """Whether the lane trains nothing and only reports at its start."""
        return 0 < self.start == self.stages[0].stop

    @property
    def is_paused_at_end(self) -> bool:
        """Whether the end of the last stage is a pause, not the end of the trial."""
        last = self.stages[-1]
        return not is_end(last.stop, last.max_resource)

    def next_stage(self, done: int) -> Stage:
        """Return the stage of the next unit; the last stage if there is no next unit."""
        return self.stages[min(bisect_right(self._ends, done), len(self.stages) - 1)]

    def index_at(self, done: int) -> int:
        """Return the index of the stage whose node a checkpoint belongs to."""
        return min(bisect_left(self._ends, done), len(self.stages) - 1)

    def amend(self, amendment: Amendment) -> None:
        """Apply an amendment; one for a passed resource has no effect."""
        match amendment:
            case SaveAt(node=node, resource=resource):
                if self.stages[self.index_at(resource)].node == node:
                    self._points.add(resource)
            case CutWork(stop=stop):
                self._cut = min(self._cut, stop)

    def is_cut(self, done: int) -> bool:
        """Whether a cut ends the lane here, before its assigned end."""
        return self._cut <= done < self._ends[-1]

    def is_over(self, done: int) -> bool:
        """Whether no unit is left to train."""
        return done >= min(self._cut, self._ends[-1])

    def is_pause(self, done: int) -> bool:
        """Whether a lane that is over here must be unwound."""
        return self.is_cut(done) or self.is_paused_at_end

    def is_save_due(self, done: int) -> bool:
        """Whether a checkpoint is wanted here, and none exists yet."""
        if done == self._kept:
            return False
        index = self.index_at(done)
        stage = self.stages[index]
        is_periodic = stage.save_every is not None and done % stage.save_every == 0
        is_at_stop = stage.save and done == self._ends[index]
        return is_at_stop or is_periodic or done in self._points or self.is_cut(done)

    def is_save_needed(self, done: int) -> bool:
        """Whether the lane is useless without its checkpoint here, because it ends here, and not too late."""
        return done == min(self._cut, self._ends[-1])

    def saved(self, done: int) -> None:
        """Record that the checkpoint here is written, or cannot be."""
        self._kept = done

    def pauses(self) -> list[int]:
        """Return the resources whose checkpoints are needed to continue training, here or elsewhere."""
        last = self.stages[-1]
        return [
            stage.stop
            for stage in self.stages
            if stage.save and stage.stop is not None and (stage is not last or self.is_paused_at_end)
        ]

    def passed(self, done: int, at: int) -> list[Stage]:
        """Return the stages whose ends a training from ``done`` to ``at`` passes, without ``at`` itself."""
        return [stage for stage, end in zip(self.stages, self._ends, strict=True) if done <= end < at]


def _end_of(stage: Stage) -> int | None:
    return stage.stop if stage.stop is not None else stage.max_resource


def as_fraction(value: Any) -> float:
    """Return a part of an epoch.

    Raises:
        UsageError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise UsageError(f"at({value!r}) is not a part of an epoch: give a number from 0 (its start) to 1 (its end).")
    return value


def as_resource(value: Any) -> int:
    """Return units of training.

    Raises:
        ReportError: it is no such number.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        resource = operator.index(value)
    except TypeError:
        raise ReportError(f"resource={value!r} is not a whole number: it counts units of training, from 1.") from None
    if not 1 <= resource < _RESOURCES_END:
        raise ReportError(f"resource={resource} is out of range: it counts units of training done, 1 to 2**53 - 1.")
    return resource
