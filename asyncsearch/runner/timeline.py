"""A lane's stages as one line of units, and what is due where on it. Pure.

Words: ``done`` is a number of units trained. A checkpoint at ``done`` stands under the node of the stage that ends
there or goes on there; the next unit belongs to the stage that begins there or goes on there.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from asyncsearch.actions import CutWork, SaveAt
from asyncsearch.runner.protocol import Amendment
from asyncsearch.trial import is_end
from asyncsearch.work import Stage


class LaneTimeline:
    """What a lane trains: as assigned, and as amended meanwhile."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = tuple(stages)
        self.start = self.stages[0].start
        self._ends = [math.inf if (end := _end_of(stage)) is None else end for stage in self.stages]
        self._points: set[int] = set()
        self._cut = math.inf
        self._kept = self.start
        """Resource of the newest checkpoint: the one that was loaded, or one that was saved."""

    @property
    def end(self) -> int | None:
        """Where the last stage ends; None: when the user's function returns."""
        return _end_of(self.stages[-1])

    @property
    def is_evaluation(self) -> bool:
        """Whether nothing is to be trained, only to be reported where the lane begins."""
        return 0 < self.start == self.stages[0].stop

    @property
    def is_paused_at_end(self) -> bool:
        """Whether the end of the last stage is a pause, not the end of the trial."""
        last = self.stages[-1]
        return not is_end(last.stop, last.max_resource)

    def next_stage(self, done: int) -> Stage:
        """Return the stage of the next unit; where there is none, the last stage."""
        return self.stages[min(bisect_right(self._ends, done), len(self.stages) - 1)]

    def index_at(self, done: int) -> int:
        """Return the index of the stage under whose node a checkpoint stands."""
        return min(bisect_left(self._ends, done), len(self.stages) - 1)

    def amend(self, amendment: Amendment) -> None:
        """Take an amendment into account; one for a resource that is passed has no effect."""
        match amendment:
            case SaveAt(node=node, resource=resource):
                if self.stages[self.index_at(resource)].node == node:
                    self._points.add(resource)
            case CutWork(stop=stop):
                self._cut = min(self._cut, stop)

    def is_cut(self, done: int) -> bool:
        """Whether the lane ends here, before its end."""
        return self._cut <= done < self._ends[-1]

    def is_over(self, done: int) -> bool:
        """Whether no further unit is to be trained."""
        return done >= min(self._cut, self._ends[-1])

    def is_pause(self, done: int) -> bool:
        """Whether a lane that is over here is to be unwound."""
        return self.is_cut(done) or self.is_paused_at_end

    def is_save_due(self, done: int) -> bool:
        """Whether a checkpoint is wanted here, and there is none yet."""
        if done == self._kept:
            return False
        index = self.index_at(done)
        stage = self.stages[index]
        is_periodic = stage.save_every is not None and done % stage.save_every == 0
        is_at_stop = stage.save and done == self._ends[index]
        return is_at_stop or is_periodic or done in self._points or self.is_cut(done)

    def is_save_needed(self, done: int) -> bool:
        """Whether the lane is of no use without its checkpoint here: it ends here, and not too late."""
        return done == min(self._cut, self._ends[-1])

    def saved(self, done: int) -> None:
        """Note that the checkpoint here is written, or cannot be."""
        self._kept = done

    def pauses(self) -> list[int]:
        """Return where a checkpoint is needed for training to go on from it, here or elsewhere."""
        last = self.stages[-1]
        return [
            stage.stop
            for stage in self.stages
            if stage.save and stage.stop is not None and (stage is not last or self.is_paused_at_end)
        ]

    def passed(self, done: int, at: int) -> list[Stage]:
        """Return the stages whose ends a training passes that goes from ``done`` beyond them to ``at``."""
        return [stage for stage, end in zip(self.stages, self._ends, strict=True) if done <= end < at]


def _end_of(stage: Stage) -> int | None:
    return stage.stop if stage.stop is not None else stage.max_resource
