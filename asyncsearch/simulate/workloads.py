"""Workloads: cost and value of simulated trials, functions of trial and resource, and checks of their answers. Pure."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from asyncsearch.arguments import above_zero, count_of, not_negative
from asyncsearch.errors import UsageError
from asyncsearch.ids import TrialId, trial_name
from asyncsearch.nonfinite import spell
from asyncsearch.randomness import generator
from asyncsearch.trial import Params
from asyncsearch.work import Stage


class Workload(Protocol):
    """The values and times of the trials that a simulated cluster trains."""

    def value(self, trial: TrialId, params: Params, resource: int) -> float:
        """Return the metric after ``resource`` units of training."""

    def seconds(self, trial: TrialId, params: Params) -> float:
        """Return how long one unit of training takes, in virtual seconds: positive, finite."""


class Curves:
    """Learning curves with known ends: each trial's loss falls from 1 to its own floor, some faster than others.

    The floor and the speed of a trial are drawn from (seed, trial), so rankings at small resources mislead sometimes,
    as in real life.

    Args:
        seed: of the draws.
        unit_s: mean virtual seconds of a unit of training.
        spread: standard deviation of the normal z in the cost ``unit_s * (1 + |z|)`` (ASHA paper, appendix A.1).

    Raises:
        UsageError: a number that cannot be.
    """

    def __init__(self, seed: int = 0, unit_s: float = 1.0, spread: float = 0.0) -> None:
        self.seed = count_of("seed", seed)
        self.unit_s, self.spread = above_zero("unit_s", unit_s), not_negative("spread", spread)
        self._drawn: dict[TrialId, tuple[float, float, float]] = {}

    def value(self, trial: TrialId, params: Params, resource: int) -> float:
        """Return the loss: smaller is better, between 0 and 1."""
        floor, speed, _ = self._draw(trial)
        return floor + (1 - floor) * math.exp(-speed * math.log1p(resource))

    def seconds(self, trial: TrialId, params: Params) -> float:
        """Return the cost of a unit of this trial."""
        return self._draw(trial)[2]

    def _draw(self, trial: TrialId) -> tuple[float, float, float]:
        drawn = self._drawn.get(trial)
        if drawn is None:
            random = generator(self.seed, "curve", trial)
            cost = self.unit_s * (1 + abs(self.spread * float(random.standard_normal())))
            drawn = self._drawn[trial] = (float(random.random()), 0.5 + float(random.random()), cost)
        return drawn


_MOST_UNITS = 2**63 - 1
"""The largest integer of a journal."""


class Failure(NamedTuple):
    """Where a trial fails, each time that it is tried."""

    units: int
    """Of training that it reports before."""
    seconds: float
    """From there to its failure. 0: it fails at once, and is not paused there either."""


class CheckedWorkload:
    """Asks a workload, and refuses an answer that cannot be, with the form that it must have.

    Args:
        workload: of a simulation.

    Raises:
        UsageError: by every method: the workload returned an impossible value.
    """

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._says_units = hasattr(workload, "units")
        self._says_failures = hasattr(workload, "fails_after")

    def value(self, stage: Stage, resource: int) -> float | str:
        """Return the reported value of a stage, as it is in a journal."""
        value: Any = self._workload.value(stage.trials[0], stage.params, resource)
        number = _number(value)
        if number is None:
            raise self._refusal("value", value, stage.trials[0], "a number, NaN where there is none")
        return spell(number)

    def seconds(self, stage: Stage) -> float:
        """Return how long a unit of a stage takes."""
        seconds: Any = self._workload.seconds(stage.trials[0], stage.params)
        number = _number(seconds)
        if number is None or not 0 < number < math.inf:
            raise self._refusal("seconds", seconds, stage.trials[0], "how long a unit takes, positive and finite")
        return number

    def units(self, trial: TrialId) -> int:
        """Return after how many units the function of a trial returns; 1 if the workload does not say."""
        units = self._workload.units(trial) if self._says_units else 1  # type: ignore[attr-defined]
        if not _is_count(units) or units < 1:
            raise self._refusal("units", units, trial, "after how many units its function returns, an integer from 1")
        return int(units)

    def failure(self, trial: TrialId) -> Failure | None:
        """Return where a trial fails. None if it does not, as all of a workload that does not say."""
        if not self._says_failures:
            return None
        answer: Any = self._workload.fails_after(trial)  # type: ignore[attr-defined]
        if answer is None:
            return None
        units, seconds = answer if isinstance(answer, tuple) and len(answer) == 2 else (-1, None)
        number = _number(seconds)
        if not _is_count(units) or number is None or not 0 <= number < math.inf:
            wanted = "None, or (units, seconds) after which it fails, an integer and a number from 0, e.g. (3, 0.0)"
            raise self._refusal("fails_after", answer, trial, wanted)
        return Failure(int(units), number)

    def _refusal(self, function: str, returned: object, trial: TrialId, wanted: str) -> UsageError:
        name = f"{type(self._workload).__name__}.{function}()"
        return UsageError(f"{name} returned {_shown(returned)} for {trial_name(trial)}: it must return {wanted}.")


def _is_count(value: object) -> bool:
    """Return whether a value is an integer from 0 that a journal can hold."""
    return isinstance(value, int | np.integer) and 0 <= int(value) <= _MOST_UNITS


def _number(value: object) -> float | None:
    """Return a number as a float. None if it is none, or too large for one."""
    if not isinstance(value, int | float | np.integer | np.floating):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _shown(value: object) -> str:
    """Return a value for a message. Python refuses to write integers of more than some thousand digits."""
    try:
        return repr(value)
    except ValueError:
        return "an integer of thousands of digits"
