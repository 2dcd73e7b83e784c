"""The results for a program after its search: ``ResultGrid`` of ``fit``, and ``ExperimentAnalysis`` of ``tune.run``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from asyncsearch.errors import UsageError
from asyncsearch.ray.flat_result import FlatResult
from asyncsearch.ray.folders import last_run
from asyncsearch.ray.proposals import Variants
from asyncsearch.ray.recorded_trials import RecordedTrial, best_of, recorded_trials
from asyncsearch.ray.trial.checkpoints import DirCheckpoint
from asyncsearch.study.results import Results
from asyncsearch.study.study import Study

if TYPE_CHECKING:
    import pandas


class TrialResult:
    """One trial; in programs it is ``Result``."""

    def __init__(self, trial: RecordedTrial) -> None:
        self._trial = trial

    @property
    def metrics(self) -> dict[str, Any]:
        """The last report, with the configuration."""
        return self._trial.last_result

    @property
    def config(self) -> Any:
        """The configuration."""
        return self._trial.config

    @property
    def error(self) -> Exception | None:
        """What ended it, if it failed."""
        return self._trial.error

    @property
    def path(self) -> str:
        """The folder of its files."""
        return self._trial.path

    log_dir = path

    @property
    def checkpoint(self) -> DirCheckpoint | None:
        """The last checkpoint."""
        return self._trial.checkpoint

    @property
    def best_checkpoints(self) -> list[tuple[DirCheckpoint, dict[str, Any]]]:
        """The checkpoints that the program wants to keep, with their reports; the best one is the last."""
        return [(one.checkpoint, FlatResult(one.metrics)) for one in self._trial.best_kept]

    def get_best_checkpoint(self, metric: str, mode: str) -> DirCheckpoint | None:
        """Return the checkpoint with the best value of a metric."""
        return self._trial.best_checkpoint(metric, mode)

    @property
    def metrics_dataframe(self) -> pandas.DataFrame:
        """A row for each report."""
        return self._trial.dataframe()

    def __repr__(self) -> str:
        shown = {name: value for name, value in self.metrics.items() if name != "config"}
        return f"Result(metrics={shown}, path={self._trial.trial_id!r}, error={self.error!r})"


class SearchResults:
    """All trials; in programs it is ``ResultGrid``."""

    def __init__(self, study: Results, trials: list[RecordedTrial], metric: str | None, mode: str | None) -> None:
        self.study = study
        """The study of this project, for ``explain``, plots and more."""
        self._trials, self._metric, self._mode = trials, metric, mode

    def get_best_result(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last", filter_nan_and_inf: bool = True
    ) -> TrialResult:
        """Return the best trial by its last value, or with ``scope="all"`` by the best that it ever reported."""
        metric, mode = self._compared_by(metric, mode)
        best = best_of(self._trials, metric, mode, scope, only_finite=filter_nan_and_inf)
        if best is None:
            raise RuntimeError(
                f"No trial has a finite value of {metric!r}: {self.num_errors} of {len(self)} have failed; "
                "results.errors "
                "says why."
            )
        return TrialResult(best)

    def _compared_by(self, metric: str | None, mode: str | None) -> tuple[str, str]:
        metric, mode = metric or self._metric, mode or self._mode
        if metric is None or mode is None:
            raise UsageError("Name the metric and its direction: get_best_result(metric='loss', mode='min').")
        return metric, mode

    def get_dataframe(self, filter_metric: str | None = None, filter_mode: str | None = None) -> pandas.DataFrame:
        """Return a row for each trial: its last report, or the one with the best value of ``filter_metric``."""
        import pandas as pd

        return pd.DataFrame([trial.flat_row(filter_metric, filter_mode or self._mode) for trial in self._trials])

    @property
    def errors(self) -> list[Exception]:
        """The exceptions of the trials that failed."""
        return [error for trial in self._trials if (error := trial.error) is not None]

    @property
    def num_errors(self) -> int:
        """How many trials failed."""
        return len(self.errors)

    @property
    def num_terminated(self) -> int:
        """How many trials came to an end without failing."""
        return sum(trial.status == "TERMINATED" for trial in self._trials)

    @property
    def experiment_path(self) -> str:
        """The folder of the search."""
        return experiment_path(self.study)

    def __len__(self) -> int:
        return len(self._trials)

    def __getitem__(self, index: int) -> TrialResult:
        return TrialResult(self._trials[index])

    def __iter__(self) -> Iterator[TrialResult]:
        return iter([TrialResult(trial) for trial in self._trials])

    def __repr__(self) -> str:
        return f"ResultGrid<[{', '.join(map(repr, self))}]>"


def experiment_path(study: Results) -> str:
    """Return the folder of a search, in which each run has a folder."""
    return study.store.shown.rpartition("/")[0]


class SearchAnalysis:
    """All trials, as former programs read them; in these it is ``ExperimentAnalysis``."""

    def __init__(
        self,
        experiment_checkpoint_path: Any = None,
        *,
        default_metric: str | None = None,
        default_mode: str | None = None,
        study: Results | None = None,
        trials: list[RecordedTrial] | None = None,
    ) -> None:
        """Read the search in a folder; or take a study with its trials."""
        if study is None or trials is None:
            study, trials = read_search(experiment_checkpoint_path)
        self.study, self.trials = study, trials
        self.default_metric, self.default_mode = default_metric, default_mode

    def get_best_trial(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,
    ) -> RecordedTrial | None:
        """Return the best trial by its last value, or by another scope."""
        metric, mode = metric or self.default_metric, mode or self.default_mode
        if metric is None:
            raise UsageError("Name the metric and its direction: get_best_trial('loss', 'min').")
        if mode is None:
            mode = "max"
            warnings.warn(
                f"mode is not named, and 'max' is meant, as in Ray 0.8: write mode= beside {metric!r}.", stacklevel=2
            )
        return best_of(self.trials, metric, mode, scope, only_finite=filter_nan_and_inf)

    def get_best_config(self, metric: str | None = None, mode: str | None = None, scope: str = "last") -> Any:
        """Return the configuration of the best trial."""
        best = self.get_best_trial(metric, mode, scope)
        return None if best is None else best.config

    def get_best_checkpoint(
        self, trial: RecordedTrial | str, metric: str | None = None, mode: str | None = None, return_path: bool = False
    ) -> Any:
        """Return the checkpoint of a trial, or of the one with this folder, with the best value of a metric."""
        chosen = next((one for one in self.trials if trial in (one, one.trial_id, one.path)), None)
        if chosen is None:
            raise UsageError(f"There is no trial {trial!r} here: give one of analysis.trials.")
        found = chosen.best_checkpoint(metric or self.default_metric or "", mode or self.default_mode or "max")
        return found.path if return_path and found is not None else found

    def get_last_checkpoint(
        self, trial: RecordedTrial | None = None, metric: str = "training_iteration", mode: str = "max"
    ) -> DirCheckpoint | None:
        """Return the last checkpoint of a trial, or of the best one."""
        chosen = trial or self.get_best_trial(metric, mode)
        return None if chosen is None else chosen.checkpoint

    def get_trial_checkpoints_paths(
        self, trial: RecordedTrial, metric: str | None = None
    ) -> list[tuple[str, float | None]]:
        """Return the folder and the value of each checkpoint of a trial."""
        name = metric or self.default_metric or "training_iteration"
        return [(one.checkpoint.path, one.metrics.get(name)) for one in trial.best_kept]

    def get_best_logdir(self, metric: str | None = None, mode: str | None = None, scope: str = "last") -> str | None:
        """Return the folder of the best trial."""
        best = self.get_best_trial(metric, mode, scope)
        return None if best is None else best.path

    @property
    def best_trial(self) -> RecordedTrial | None:
        """The best trial."""
        return self.get_best_trial()

    @property
    def best_config(self) -> Any:
        """The configuration of the best trial."""
        return self.get_best_config()

    @property
    def best_result(self) -> dict[str, Any]:
        """The last report of the best trial."""
        best = self.best_trial
        return {} if best is None else best.last_result

    @property
    def best_checkpoint(self) -> Any:
        """The best checkpoint of the best trial."""
        best = self.best_trial
        return None if best is None else self.get_best_checkpoint(best)

    @property
    def best_logdir(self) -> str | None:
        """The folder of the best trial."""
        return self.get_best_logdir()

    @property
    def best_dataframe(self) -> pandas.DataFrame:
        """The reports of the best trial."""
        best = self.best_trial
        assert best is not None
        return best.dataframe()

    @property
    def best_result_df(self) -> pandas.DataFrame:
        """The last report of the best trial as a frame."""
        import pandas as pd

        best = self.best_trial
        return pd.DataFrame([] if best is None else [best.flat_row()]).set_index("trial_id")

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """The last report of each trial, by its id."""
        return {trial.trial_id: trial.last_result for trial in self.trials}

    @property
    def results_df(self) -> pandas.DataFrame:
        """A row for each trial, by its id."""
        return self.dataframe().set_index("trial_id")

    @property
    def trial_dataframes(self) -> dict[str, pandas.DataFrame]:
        """The reports of each trial, by its id."""
        return {trial.trial_id: trial.dataframe() for trial in self.trials}

    def fetch_trial_dataframes(self) -> dict[str, pandas.DataFrame]:
        """Return the reports of each trial, by its id."""
        return self.trial_dataframes

    def get_all_configs(self, prefix: bool = False) -> dict[str, Any]:
        """Return the configuration of each trial, by its id."""
        return {trial.trial_id: trial.config for trial in self.trials}

    def dataframe(self, metric: str | None = None, mode: str | None = None) -> pandas.DataFrame:
        """Return a row for each trial: its last report, or with ``mode`` the one with the best value of the metric."""
        import pandas as pd

        chosen = (metric or self.default_metric) if mode or metric else None
        return pd.DataFrame([trial.flat_row(chosen, mode or self.default_mode) for trial in self.trials])

    @property
    def experiment_path(self) -> str:
        """The folder of the search."""
        return experiment_path(self.study)

    def runner_data(self) -> Mapping[str, Any]:
        """Return nothing: Ray's own state is not here."""
        return {}


def read_search(path: Any) -> tuple[Study, list[RecordedTrial]]:
    """Return the last study in the folder of a search, with its trials.

    Raises:
        UsageError: no program of Ray Tune has run there.
    """
    study = Study.resume(last_run(path))
    if not isinstance(study.searcher, Variants):
        raise UsageError(f"{study.store.shown} holds a study that no program of Ray Tune made: read it by Study.open.")
    return study, recorded_trials(study, study.searcher.param_space)
