"""Where Ray Tune's schedulers judge: the milestones of ASHA, and the brackets of HyperBand; frozen descriptions.

Whom they stop there is in ``stopping``.

Resource: the number of reports where ``time_attr`` is "training_iteration". Any other attribute may have fractions,
begin at 0 and come twice, so that a trial's resource is 1 + 1000 times its value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from asyncsearch.ids import TrialId
from asyncsearch.randomness import generator
from asyncsearch.ray.stopping import RayASHAState, RayBracket
from asyncsearch.schedulers.base_scheduler import RungForecast, Scheduler
from asyncsearch.space import Space

ITERATION = "training_iteration"
PARTS = 1000
"""Into so many parts a unit of a ``time_attr`` is divided that may have fractions."""


def resource_at(time_attr: str, time: float) -> int:
    """Return the resource of a value of ``time_attr``."""
    return max(1, int(time)) if time_attr == ITERATION else max(0, math.floor(time * PARTS)) + 1


def milestones_of(
    grace_period: float, max_t: float, reduction_factor: float, bracket: int, time_attr: str
) -> tuple[int, ...]:
    """Return the resources of a bracket's milestones up to ``max_t``, lowest first; some may be equal."""
    # By logarithms, as Ray counts them: of 243 by 3 the last one is 81 there.
    count = int(np.log(max_t / grace_period) / np.log(reduction_factor) - bracket + 1)
    return tuple(level_at(time_attr, grace_period * reduction_factor ** (k + bracket)) for k in range(count))


def level_at(time_attr: str, time: float) -> int:
    """Return the first resource at or after a value of ``time_attr``."""
    return resource_at(time_attr, math.ceil(time) if time_attr == ITERATION else time)


@dataclass(frozen=True, kw_only=True)
class RayASHA(Scheduler):
    """The rule behind ``AsyncHyperBandScheduler``; its arguments are Ray's."""

    max_t: float = 100
    grace_period: float = 1
    reduction_factor: float = 4
    brackets: int = 1
    time_attr: str = ITERATION
    stop_last_trials: bool = True

    @classmethod
    def kind(cls) -> str:
        return "asyncsearch.ray.scheduling.RayASHA"  # of all versions: studies have it

    @property
    def pauses(self) -> bool:
        return False

    @property
    def max_resource(self) -> int | None:
        return level_at(self.time_attr, self.max_t) if self.stop_last_trials else None

    def levels(self, bracket: int) -> tuple[int, ...]:
        """Return the resources where a bracket judges, lowest first: not where all trials are complete."""
        found = milestones_of(self.grace_period, self.max_t, self.reduction_factor, bracket, self.time_attr)
        end = self.max_resource
        return tuple(level for level in found if end is None or level < end)

    def begin(self, space: Space | None = None, seed: int = 0) -> RayASHAState:
        numbers, factor, end = range(self.brackets), self.reduction_factor, self.max_resource
        brackets = [RayBracket(self.levels(number), factor, end) for number in numbers]
        counts = [
            len(milestones_of(self.grace_period, self.max_t, factor, number, self.time_attr)) for number in numbers
        ]
        passed = np.cumsum([math.exp(count - max(counts)) for count in counts])

        def number_of(trial: TrialId) -> int:
            """Draw it for the trial alone, so that nothing else decides on it."""
            share = generator(seed, "ray.brackets", trial).random() * passed[-1]
            return min(int(np.searchsorted(passed, share, side="right")), len(brackets) - 1)

        return RayASHAState(brackets, number_of if len(brackets) > 1 else lambda _trial: 0, end)

    def describe(self) -> str:
        rungs = ", ".join(f"{self.grace_period * self.reduction_factor**k:g}" for k in range(len(self.levels(0))))
        unit = "iterations" if self.time_attr == ITERATION else self.time_attr
        end = f"end at {self.max_t:g}" if self.stop_last_trials else "end where their function returns"
        return f"ASHA as in Ray Tune: trials are judged at {rungs or 'no'} {unit}, and {end}"

    def forecast(self, num_trials: int) -> list[RungForecast]:
        lines, start, left = [], 0, num_trials
        for level in (*dict.fromkeys(self.levels(0)), self.max_resource):
            lines.append(RungForecast(start, level, left))
            start, left = level or start, max(1, math.floor(left / self.reduction_factor))
        return lines


class HalvingBracket(NamedTuple):
    """A bracket of HyperBand."""

    trials: int
    """How many belong to it."""
    times: tuple[int, ...]
    """Where they are halved, lowest first; at the last one they are complete."""


@dataclass(frozen=True, kw_only=True)
class RayHyperBand(Scheduler):
    """The rule behind ``HyperBandScheduler``, with Ray's brackets, in which no trial waits for the others."""

    max_t: float = 81
    reduction_factor: float = 3
    time_attr: str = ITERATION
    stop_last_trials: bool = True

    @property
    def pauses(self) -> bool:
        return False

    @property
    def max_resource(self) -> int | None:
        return level_at(self.time_attr, self.max_t) if self.stop_last_trials else None

    @property
    def brackets(self) -> list[HalvingBracket]:
        """Those of a band, in the order in which trials fill them."""
        most, found = round(math.log(self.max_t) / math.log(self.reduction_factor)) + 1, []
        for number in range(most):
            times = [int(self.max_t * self.reduction_factor**-number)]
            for _ in range(number):
                times.append(int(min(times[-1] * self.reduction_factor, self.max_t)))
            if times[0]:  # else there is nothing to train before the first halving
                trials = math.ceil(most / (number + 1) * self.reduction_factor**number)
                found.append(HalvingBracket(trials, tuple(times)))
        return found

    def begin(self, space: Space | None = None, seed: int = 0) -> RayASHAState:
        made, numbers = [], []
        for number, bracket in enumerate(self.brackets):
            *levels, end = (level_at(self.time_attr, time) for time in bracket.times)
            made.append(RayBracket(levels, self.reduction_factor, end if self.stop_last_trials else None))
            numbers += [number] * bracket.trials
        return RayASHAState(made, lambda trial: numbers[trial % len(numbers)], self.max_resource)

    def describe(self) -> str:
        brackets = ", ".join(f"{one.trials} at {'/'.join(map(str, one.times))}" for one in self.brackets)
        return f"HyperBand as in Ray Tune, judged as trials pass: {brackets}"

    def forecast(self, num_trials: int) -> list[RungForecast]:
        lines, brackets = [], self.brackets
        bands, rest = divmod(num_trials, sum(bracket.trials for bracket in brackets))
        for number, bracket in enumerate(brackets):
            here = min(rest, bracket.trials)
            rest -= here
            left, start = bands * bracket.trials + here, 0
            for time in bracket.times if left else ():
                level = level_at(self.time_attr, time)
                lines.append(RungForecast(start, level, left, number))
                start, left = level, max(1, math.floor(left / self.reduction_factor))
        return lines
