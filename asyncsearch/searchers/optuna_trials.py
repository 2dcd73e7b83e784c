"""The trials of a study of Optuna as earlier trials of a search: a warm start. Pure; optuna is not imported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from asyncsearch.searchers.observations import Observed, TrialPosition
from asyncsearch.space.dotted_names import nest

_POSITIONS = {"COMPLETE": TrialPosition.COMPLETED, "PRUNED": TrialPosition.STOPPED, "FAIL": TrialPosition.FAILED}


def is_optuna_study(value: object) -> bool:
    """Return whether a value is a study of Optuna, which is not imported for the question."""
    return any(base.__name__ == "Study" and base.__module__ == "optuna.study.study" for base in type(value).__mro__)


def observed_in(study: Any, mode: str) -> Iterator[Observed]:
    """Yield the finished trials of a study of Optuna, whose parameters have the dotted names of the space.

    A trial without reports has its value at resource 1, as a function that returns it has; a step counts from 0 there,
    so that the report of step 0 is that of resource 1.
    """
    sign = 1.0 if mode == "min" else -1.0
    for trial in study.get_trials(deepcopy=False):
        position = _POSITIONS.get(trial.state.name)
        if position is None:
            continue
        reports = {step + 1: sign * value for step, value in trial.intermediate_values.items() if value == value}
        score = None if trial.value is None or position is TrialPosition.FAILED else sign * trial.value
        values: dict[int, float | None] = dict(reports) if reports else {1: score} if score is not None else {}
        yield Observed(nest(trial.params), {}, values, position, max(values, default=0), score)
