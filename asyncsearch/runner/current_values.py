"""The current values of a lane's hyper-parameters. Pure."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

from asyncsearch.runner.timeline import LaneTimeline
from asyncsearch.trial import Params


class CurrentValues:
    """The parameters of a lane's stages as functions of logical time: unit t lasts from t to t + 1."""

    def __init__(self, timeline: LaneTimeline) -> None:
        self._timeline = timeline
        self._cached: tuple[int, Params] | None = None

    @cached_property
    def has_sequences(self) -> bool:
        """Whether any parameter is a sequence."""
        return any(_has_sequences(stage.params) for stage in self._timeline.stages)

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
        if not self.has_sequences:
            return params
        from asyncsearch.sequences import present

        return present(params, time)


def _has_sequences(params: Params) -> bool:
    if all(value is None or isinstance(value, (int, float, str)) for value in params.values()):
        return False  # a runner without sequences does not import their dependencies
    from asyncsearch.sequences import has_sequences

    return has_sequences(params)


def changed(before: Params, now: Params) -> dict[str, Any]:
    """Return the values that have changed."""
    return {name: value for name, value in now.items() if name not in before or _differs(before[name], value)}


def _differs(one: Any, other: Any) -> bool:
    return type(one) is not type(other) or bool(one != other)
