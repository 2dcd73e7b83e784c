"""A lane's stages as one line of units, with the due saves and pauses and the present values. Pure.

Terms: ``done`` is a number of trained units. A checkpoint at ``done`` belongs to the node of the stage that ends or
continues there; the next unit belongs to the stage that begins or continues there.
"""

from __future__ import annotations

import math
import operator
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from asyncsearch.actions import CutWork, ExtendWork, SaveAt, extended
from asyncsearch.errors import UsageError
from asyncsearch.runner.protocol import Amendment
from asyncsearch.trainable import ReportError, Update
from asyncsearch.trial import Params, is_end
from asyncsearch.work import Stage

_RESOURCES_END = 2**53
"""Upper bound (exclusive) of resources, as in the contract in ``rpc/``."""


class LaneTimeline:
    """The work of a lane, as assigned and amended."""

    def __init__(self, stages: Sequence[Stage], judged: int | None = None) -> None:
        self.judged = judged
        """The next resource at whose report it is decided whether it goes on, besides a pause. None if none."""
        self.saves = False
        """Whether the trial can be saved, so that its last checkpoint may be spared."""
        self.stages = tuple(stages)
        self.start = self.stages[0].start
        self._ends = [math.inf if (end := _end_of(stage)) is None else end for stage in self.stages]
        self._points: set[int] = set()
        self._cut = math.inf
        self._kept = self.start
        """Resource of the newest checkpoint, loaded or saved."""

    @property
    def end(self) -> int | None:
        """Resource at which the last stage ends. None if that is when the user's function returns."""
        return _end_of(self.stages[-1])

    def require_end(self, name: str) -> None:
        """Refuse, by a ``UsageError``, a loop over the units of a trial of this name if they have no end."""
        if self.end is None:
            raise UsageError(
                f"{name} called epochs() and the study does not say how many there are: set max_resource (of the "
                "scheduler, or of StandaloneTrial), or write a loop of your own."
            )

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
            case ExtendWork(stages=stages):
                self.stages = extended(self.stages, amendment)
                self._ends += [math.inf if (end := _end_of(stage)) is None else end for stage in stages]

    def is_cut(self, done: int) -> bool:
        """Whether a cut ends the lane here, before its assigned end."""
        return self._cut <= done < self._ends[-1]

    def is_judged(self, done: int) -> bool:
        """Whether it is decided here whether, and how far, the trial goes on."""
        if self.judged is not None and done >= self.judged:
            return True
        is_kept = self.is_paused_at_end or (self.saves and self.stages[-1].save)
        return is_kept and done >= self._ends[-1] and not self.is_evaluation

    def is_of_use(self, done: int) -> bool:
        """Whether a value here decides anything, of this trial or of one that reads from its stages."""
        is_place = self.judged is not None and done >= self.judged
        return is_place or done >= self._cut or done in self._ends or done in self._points or self.is_over(done)

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


class CurrentValues:
    """The parameters of a lane's stages as functions of logical time: unit t lasts from t to t + 1."""

    def __init__(self, timeline: LaneTimeline) -> None:
        self._timeline = timeline
        self._cached: tuple[int, Params] | None = None
        self._has_read = False
        """Whether the user's code has read the values since the present unit began."""
        self.unread: dict[str, Any] = {}
        """Values that changed with the present unit and were passed to nobody."""

    def read(self, time: int, fraction: float = 0.0) -> Params:
        """Return the values inside a unit, as ``within``, for the user's code."""
        self._has_read = True
        return self.within(time, fraction)

    def pass_changes(self, update: Update, known: Params, time: int) -> Params:
        """Pass on the values that have changed since ``known``, and return those of the unit that begins at a time."""
        now = self.at(time)
        if now is not known and (values := changed(known, now)):
            update(values)
        return now

    def begin_unit(self) -> None:
        """Begin to watch whether the values are read."""
        self._has_read = False

    def require_read(self, name: str, done: int) -> None:
        """Refuse a loop that never takes over a value that has changed: its results would be those of another one.

        Args:
            name: name of the trial.
            done: units of training done.

        Raises:
            UsageError: it has read nothing since the values changed.
        """
        names = ", ".join(self.unread)
        self.unread.clear()
        if not names or self._has_read:
            return
        text = (
            f"{names} changed before unit {done}, and the loop did not read trial.params, while state= keeps an "
            'optimizer as it was: set it in the loop, as in `opt.param_groups[0]["lr"] = trial.params["lr"]`, or pass '
            "update=, a function that gets the changed values."
        )
        if done > self._timeline.start + 1:
            raise UsageError(f"{name}: {text}")
        # They changed while the trial was paused: the function may have read them before the loop.
        sys.stderr.write(f"asyncsearch: {text}\n")

    @cached_property
    def has_sequences(self) -> bool:
        """Whether any parameter is a sequence."""
        return any(_has(stage.params, "has_sequences") for stage in self._timeline.stages)

    @cached_property
    def _has_objects(self) -> bool:
        return any(_has(stage.params, "has_objects") for stage in self._timeline.stages)

    def at(self, time: int) -> Params:
        """Return the values of the unit that begins at a time; repeated calls for one unit return the same object."""
        if self._cached is None or self._cached[0] != time:
            self._cached = (time, self._present(time, time))
        return self._cached[1]

    def within(self, time: int, fraction: float) -> Params:
        """Return the values inside a unit, from the unit's own piece: a new piece begins only with the next unit.

        Args:
            time: where the unit begins.
            fraction: 0 at its beginning, 1 at its end.
        """
        if fraction == 0 or not self.has_sequences:
            return self.at(time)
        return self._present(time, min(time + fraction, math.nextafter(time + 1, 0)))

    def _present(self, unit: int, time: float) -> Params:
        params = self._timeline.next_stage(unit).params
        if not self.has_sequences and not self._has_objects:
            return params
        from asyncsearch.sequences import present

        return present(params, time)


def _has(params: Params, what: str) -> bool:
    if all(value is None or isinstance(value, (int, float, str)) for value in params.values()):
        return False  # a runner without sequences does not import their dependencies
    from asyncsearch.sequences import params as kinds

    return bool(getattr(kinds, what)(params))


def changed(before: Params, now: Params) -> dict[str, Any]:
    """Return the values that have changed."""
    return {name: value for name, value in now.items() if name not in before or _differs(before[name], value)}


def _differs(one: Any, other: Any) -> bool:
    return one is not other and (type(one) is not type(other) or bool(one != other))
