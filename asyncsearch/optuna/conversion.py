"""A search of asyncsearch as a study of Optuna, for its plots, its dashboard and its importances."""

from __future__ import annotations

import datetime
import math
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from asyncsearch import trial as trials
from asyncsearch.errors import UsageError
from asyncsearch.journal.opening import read_records
from asyncsearch.journal.projection import reports
from asyncsearch.searchers.optuna_study import Dimensions
from asyncsearch.study.read_study import ReadStudy
from asyncsearch.study.study import Study
from asyncsearch.values import unspell

_STATES = {
    trials.TrialState.COMPLETED: TrialState.COMPLETE,
    trials.TrialState.FAILED: TrialState.FAIL,
    trials.TrialState.PAUSED: TrialState.PRUNED,
    trials.TrialState.STOPPED: TrialState.PRUNED,
}
"""One that had still to train was, for Optuna, pruned as well."""


def to_optuna(study: Study, *, storage: Any = None, study_name: str | None = None) -> optuna.study.Study:
    """Return a study of Optuna with the trials of one of asyncsearch.

    Parameters have their dotted names; constants and those of a single value are left out. A trial's reports of the
    metric are its intermediate values, by resource, and its other metrics are among its user attributes.

    Args:
        study: a ``Study`` that was run, resumed or created with the same space; ``Study.open`` has no space.
        storage: as of ``optuna.create_study``; None means in memory.
        study_name: its name there; None means that of the study.

    Raises:
        UsageError: it is no study, or was opened to read its results only.
    """
    if not isinstance(study, ReadStudy):
        raise UsageError(f"to_optuna({study!r}): give it a Study, such as Study.resume('studies/digits').")
    if getattr(study, "_runnable", None) is None:
        raise UsageError(f"{study.name!r} was opened without its space: write Study.resume({study.store.shown!r}).")
    dimensions, space, config = Dimensions(study.space), study.space, study.config
    values: dict[int, dict[int, float]] = {}
    for report in reports(read_records(study.store)):
        if config.metric in report.metrics:
            values.setdefault(report.trial, {})[report.resource] = float(unspell(report.metrics[config.metric]))
    made = optuna.create_study(
        storage=storage,
        study_name=study_name or study.name,
        direction="maximize" if config.mode == "max" else "minimize",
    )
    for one in study.trials:
        params, distributions = dimensions.to_optuna(space.flatten(one.params))
        made.add_trial(_trial(one, params, distributions, values.get(one.id, {})))
    return made


def _trial(one: trials.Trial, params: dict[str, Any], distributions: Any, values: dict[int, float]) -> FrozenTrial:
    state = _STATES.get(one.state, TrialState.PRUNED)
    value = one.value if state is not TrialState.FAIL else None
    if value is None and state is TrialState.COMPLETE:
        state = TrialState.FAIL  # its last value was no number, which Optuna has no completed trial of
    return FrozenTrial(
        number=one.id,
        trial_id=one.id,
        state=state,
        value=value,
        datetime_start=_time(one.started_s),
        datetime_complete=_time(one.ended_s) or _time(one.started_s) or datetime.datetime.now(),
        params=params,
        distributions=distributions,
        user_attrs={name: metric for name, metric in one.metrics.items() if math.isfinite(metric)},
        system_attrs={},
        intermediate_values=values,
    )


def _time(seconds: float | None) -> datetime.datetime | None:
    return None if seconds is None else datetime.datetime.fromtimestamp(seconds)
