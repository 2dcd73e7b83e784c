"""The trials of a search as its journal has them, and the best of them by any metric; what all results read from."""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asyncsearch.errors import AsyncSearchError, NoTrialsError, UsageError
from asyncsearch.events import Consulted
from asyncsearch.files.trees import copy_tree
from asyncsearch.journal.opening import read_records
from asyncsearch.journal.projection import reports
from asyncsearch.ray.flat_result import FlatResult
from asyncsearch.ray.milestones import ITERATION
from asyncsearch.ray.space.configurations import ParamSpace, with_changes
from asyncsearch.ray.trial.checkpoints import DirCheckpoint, KeptCheckpoint, TrialCheckpoints, worst_first
from asyncsearch.ray.trial.reported_values import METRIC_TYPES
from asyncsearch.study.results import Results
from asyncsearch.trial import Trial, TrialState

if TYPE_CHECKING:
    import pandas

SCOPES = ("last", "all", "avg", "last-5-avg", "last-10-avg")
_STATUS = {TrialState.FAILED: "ERROR", TrialState.COMPLETED: "TERMINATED", TrialState.STOPPED: "TERMINATED"}


class TuneError(AsyncSearchError):
    """Trials have failed."""


class RayTaskError(RuntimeError):
    """The exception of a trial, with the traceback of its worker."""


class RecordedTrial:
    """One trial; in programs of ``tune.run`` it is their ``Trial``."""

    def __init__(self, study: Results, trial: Trial, config: Any, found: list[dict[str, Any]]) -> None:
        self._study, self._trial = study, trial
        self.config, self.results = config, found
        """Its configuration, and its reports in order."""

    @property
    def trial_id(self) -> str:
        """Its id."""
        return self._trial.name

    @property
    def status(self) -> str:
        """TERMINATED, ERROR, or PENDING where the search was broken off before its end."""
        return _STATUS.get(self._trial.state, "PENDING")

    @property
    def evaluated_params(self) -> Mapping[str, Any]:
        """The values that were drawn for it."""
        return self._trial.params

    @cached_property
    def last_result(self) -> dict[str, Any]:
        """Its last report, with its configuration and the last text of each name."""
        return self.row({**self._texts, **(self.results[-1] if self.results else {})})

    @property
    def _texts(self) -> dict[str, str]:
        """The last text of each name that it has reported."""
        return {name: text for name, text in self._trial.notes.items() if name != METRIC_TYPES}

    def row(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return a report with what Ray adds to it."""
        done = self._trial.state.is_finished
        return FlatResult({**result, "trial_id": self.trial_id, "done": done, "config": self.config})

    @property
    def metric_analysis(self) -> dict[str, dict[str, float]]:
        """For each metric the lowest, the highest, the mean and the last value."""
        names = {name for result in self.results for name in result}
        return {
            name: {scope: self.value(name, how, scope_of) for scope, how, scope_of in _ANALYSES}
            for name in sorted(names)
        }

    @property
    def error(self) -> Exception | None:
        """The exception that ended it."""
        return RayTaskError(self._trial.reason) if self._trial.state is TrialState.FAILED else None

    @cached_property
    def path(self) -> str:
        """The folder of its files."""
        with contextlib.suppress(NoTrialsError), self._study.trial_dir(self._trial) as folder:
            if not self._study.store.is_far:
                return str(folder)
            copied = tempfile.mkdtemp(prefix="asyncsearch-trial-")
            copy_tree(folder, Path(copied))
            return copied
        return self._study.store.shown

    @property
    def logdir(self) -> str:
        """The same, by its former name."""
        return self.path

    local_path = logdir

    @cached_property
    def kept(self) -> list[KeptCheckpoint]:
        """Its checkpoints in the order of their reports."""
        return TrialCheckpoints(self._study.store, self.trial_id).all()

    @property
    def best_kept(self) -> list[KeptCheckpoint]:
        """The checkpoints that the program wants to keep, the best one last: the newest one is there in any case."""
        settings = getattr(getattr(self._study, "searcher", None), "settings", None)
        if settings is None:
            return self.kept
        return worst_first(self.kept, settings.score_attribute, settings.score_order)[-(settings.num_to_keep or 0) :]

    @property
    def checkpoint(self) -> DirCheckpoint | None:
        """Its last checkpoint."""
        return self.kept[-1].checkpoint if self.kept else None

    def best_checkpoint(self, metric: str, mode: str) -> DirCheckpoint | None:
        """Return its checkpoint with the best value of a metric."""
        have = [one for one in self.kept if metric in one.metrics]
        if self.kept and not have:
            names = ", ".join(sorted(self.kept[-1].metrics))
            raise UsageError(f"No checkpoint was reported with {metric!r}; they have {names}.")
        return worst_first(have, metric, mode)[-1].checkpoint if have else None

    def value(self, metric: str, mode: str, scope: str = "last") -> float:
        """Return the value by which it is compared; NaN if it has none."""
        values = [float(result[metric]) for result in self.results if metric in result]
        if not values:
            return math.nan
        if scope == "last":
            return values[-1]
        if scope == "all":
            finite = [value for value in values if not math.isnan(value)]
            return (max if mode == "max" else min)(finite) if finite else math.nan
        taken = values[-int(scope.split("-")[1]) :] if scope.startswith("last-") else values
        return sum(taken) / len(taken)

    def dataframe(self) -> pandas.DataFrame:
        """Return a row for each report."""
        import pandas as pd

        return pd.DataFrame([self._flat(result) for result in self.results])

    def _flat(self, result: Mapping[str, Any]) -> dict[str, Any]:
        row = {name: value for name, value in self.row(result).items() if name != "config"}
        return row | dict(flat_config(self.config))

    def flat_row(self, metric: str | None = None, mode: str | None = None) -> dict[str, Any]:
        """Return its last report with flat names, or the one with the best value of a metric."""
        found = [result for result in self.results if metric in result] if metric else self.results
        if metric and found:
            best = (max if mode == "max" else min)(float(result[metric]) for result in found)
            found = [result for result in found if float(result[metric]) == best]
        return {**self._flat({**self._texts, **(found[-1] if found else {})}), "logdir": self.trial_id}

    def __repr__(self) -> str:
        return self.trial_id


_ANALYSES = (("max", "max", "all"), ("min", "min", "all"), ("avg", "max", "avg"), ("last", "max", "last"))


def flat_config(config: Any, prefix: str = "config/") -> list[tuple[str, Any]]:
    """Return the values of a configuration with flat names."""
    if isinstance(config, Mapping):
        return [pair for key, one in config.items() for pair in flat_config(one, f"{prefix}{key}/")]
    return [(prefix.rstrip("/"), config)]


def recorded_trials(study: Results, param_space: ParamSpace) -> list[RecordedTrial]:
    """Return the trials of a study in the order in which they began."""
    settings = getattr(getattr(study, "searcher", None), "settings", None)
    is_counted = settings is not None and settings.time_attr == ITERATION  # then a resource is the number of the report
    found: dict[int, dict[int, dict[str, Any]]] = {}
    exploits: dict[int, dict[str, Any]] = {}
    records = list(read_records(study.store))
    for record in records:
        if isinstance(record.event, Consulted) and "exploit" in record.event.facts:
            number, exploits[number] = record.event.facts["exploit"]
    for report in reports(records):
        values = {name: float(value) for name, value in report.metrics.items()}
        iteration = int(values.get(ITERATION, report.resource))
        if iteration:  # what is trained again after a resume replaces what was reported before
            number = report.resource if is_counted else iteration
            found.setdefault(report.trial, {})[number] = {**values, ITERATION: iteration}
    for one in found.values():
        _add_durations(one)
    return [
        RecordedTrial(
            study,
            trial,
            _config(param_space, trial, exploits.get(trial.id)),
            [typed(its[at], trial.notes.get(METRIC_TYPES)) for at in sorted(its)]
            if (its := found.get(trial.id))
            else [],
        )
        for trial in study.trials
    ]


def typed(values: Mapping[str, Any], note: str | None) -> FlatResult:
    """Return a report with integers and truth values as such, by the note of their types."""
    kinds = json.loads(note) if note else {}
    return FlatResult({name: _TYPES.get(kinds.get(name), _same)(value) for name, value in values.items()})


def _same(value: Any) -> Any:
    return value


def _whole(value: float) -> int | float:
    return int(value) if math.isfinite(value) and value == int(value) else value  # a fraction before a resume


_TYPES: dict[str | None, Callable[[Any], Any]] = {"int": _whole, "bool": bool}


def _add_durations(its: dict[int, dict[str, Any]]) -> None:
    """Add the seconds of each report, as Ray does."""
    before_s = 0.0
    for at in sorted(its):
        total_s = its[at].get("time_total_s", 0.0)
        its[at]["time_this_iter_s"], before_s = max(0.0, total_s - before_s), total_s


def _config(param_space: ParamSpace, trial: Trial, exploit: Mapping[str, Any] | None) -> Any:
    """Return the configuration of a trial; in a population the last one that it took over."""
    if exploit is None:
        return param_space.config(trial.params)
    return with_changes(param_space.config(exploit["params"]), exploit["changed"])


def best_of(
    trials: list[RecordedTrial], metric: str, mode: str, scope: str = "last", *, only_finite: bool = True
) -> RecordedTrial | None:
    """Return the best trial by a metric. None if none has a value.

    Raises:
        UsageError: no trial has reported the metric, or the scope is not known.
    """
    if scope not in SCOPES:
        raise UsageError(f"scope={scope!r} is not known: write one of {', '.join(SCOPES)}.")
    if mode not in ("min", "max"):
        raise UsageError(f"mode={mode!r}: write mode='min' or mode='max'.")
    reported = {name for trial in trials for result in trial.results for name in result}
    if metric not in reported and reported:
        raise UsageError(f"No trial has reported {metric!r}; they have reported {', '.join(sorted(reported))}.")
    sign = 1 if mode == "max" else -1
    ranked = [(value, trial) for trial in trials if not math.isnan(value := trial.value(metric, mode, scope))]
    ranked = [pair for pair in ranked if math.isfinite(pair[0])] if only_finite else ranked
    return max(ranked, key=lambda pair: sign * pair[0])[1] if ranked else None
