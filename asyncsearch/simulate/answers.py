"""A workload's answers, checked: one that cannot be is an error that says what must be returned. Pure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from asyncsearch.errors import UsageError
from asyncsearch.ids import TrialId, trial_name
from asyncsearch.nonfinite import spell
from asyncsearch.simulate.workloads import Workload
from asyncsearch.work import Stage

_NUMBERS = (int, float, np.number)


class Answers:
    """Asks a workload.

    Args:
        workload: of a simulation.

    Raises:
        UsageError: by every method: the workload returned what cannot be.
    """

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._says_units = hasattr(workload, "units")

    def value(self, stage: Stage, resource: int) -> float | str:
        """Return what is reported of a stage, as it is in a journal."""
        value: Any = self._workload.value(stage.trials[0], stage.params, resource)
        if not isinstance(value, _NUMBERS):
            raise self._refusal("value", value, stage.trials[0], "a number, NaN where there is none")
        return spell(float(value))

    def seconds(self, stage: Stage) -> float:
        """Return how long a unit of a stage takes."""
        seconds: Any = self._workload.seconds(stage.trials[0], stage.params)
        if not isinstance(seconds, _NUMBERS) or not 0 < seconds < math.inf:
            raise self._refusal("seconds", seconds, stage.trials[0], "how long a unit takes, positive and finite")
        return float(seconds)

    def units(self, trial: TrialId) -> int:
        """Return after how many units the function of a trial returns; 1 if the workload does not say."""
        units = self._workload.units(trial) if self._says_units else 1  # type: ignore[attr-defined]
        if not isinstance(units, int | np.integer) or units < 1:
            raise self._refusal("units", units, trial, "after how many units its function returns, an integer from 1")
        return int(units)

    def _refusal(self, function: str, returned: object, trial: TrialId, wanted: str) -> UsageError:
        name = f"{type(self._workload).__name__}.{function}()"
        return UsageError(f"{name} returned {returned!r} for {trial_name(trial)}: it must return {wanted}.")
