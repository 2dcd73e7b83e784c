"""``MLflowLoggerCallback``, ``WandbLoggerCallback``, ``setup_mlflow`` and ``setup_wandb``: a run for each trial."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.ray.callbacks.driver import LiveTrial, LoggerCallback, flat_params
from asyncsearch.ray.trial.present_trial import current


def _required(library: str, who: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise UsageError(f"{who} needs {library}, which is not installed: pip install {library}.") from error


def _numbers(result: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in result.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


class MLflowLoggerCallback(LoggerCallback):
    """Writes each trial as a run of MLflow: its configuration, its metrics by ``training_iteration``, its state."""

    def __init__(
        self,
        tracking_uri: str | None = None,
        *,
        registry_uri: str | None = None,
        experiment_name: str | None = None,
        tags: Mapping[str, Any] | None = None,
        tracking_token: str | None = None,
        save_artifact: bool = False,
        log_params_on_trial_end: bool = False,
    ) -> None:
        if save_artifact:
            raise UsageError(
                "MLflowLoggerCallback(save_artifact=True) is not known here: log the files of result.path after fit()."
            )
        if tracking_token is not None:
            raise UsageError("MLflowLoggerCallback(tracking_token=...): set MLFLOW_TRACKING_TOKEN in the environment.")
        _required("mlflow", "MLflowLoggerCallback")
        self._tracking, self._registry, self._name = tracking_uri, registry_uri, experiment_name
        self._tags, self._runs = dict(tags or {}), dict[str, str]()
        self._logs_params_last = log_params_on_trial_end

    def setup(self, *_given: Any, **_info: Any) -> None:
        tracking = importlib.import_module("mlflow.tracking")
        self._client = tracking.MlflowClient(self._tracking, self._registry)
        name = self._name or "Default"
        found = self._client.get_experiment_by_name(name)
        self._experiment = self._client.create_experiment(name) if found is None else found.experiment_id

    def log_trial_start(self, trial: LiveTrial) -> None:
        if trial.trial_id in self._runs:
            return
        tags = {**self._tags, "trial_name": str(trial), "mlflow.runName": str(trial)}
        run = self._client.create_run(self._experiment, tags={name: str(value) for name, value in tags.items()})
        self._runs[trial.trial_id] = run.info.run_id
        if not self._logs_params_last:
            self._log_params(trial)

    def log_trial_result(self, iteration: int, trial: LiveTrial, result: dict[str, Any]) -> None:
        step = int(result.get("training_iteration", iteration))
        for name, value in _numbers(result).items():
            self._client.log_metric(self._runs[trial.trial_id], name, value, step=step)

    def _log_params(self, trial: LiveTrial) -> None:
        for name, value in flat_params(trial.config).items():
            self._client.log_param(self._runs[trial.trial_id], name.replace("/", "."), str(value)[:500])

    def log_trial_end(self, trial: LiveTrial, failed: bool = False) -> None:
        if self._logs_params_last:
            self._log_params(trial)
        self._client.set_terminated(self._runs[trial.trial_id], "FAILED" if failed else "FINISHED")


class WandbLoggerCallback(LoggerCallback):
    """Writes each trial as a run of Weights & Biases, in the group of the search."""

    def __init__(
        self,
        project: str | None = None,
        group: str | None = None,
        api_key_file: str | None = None,
        api_key: str | None = None,
        excludes: list[str] | None = None,
        log_config: bool = False,
        upload_checkpoints: bool = False,
        **options: Any,
    ) -> None:
        if upload_checkpoints or options.pop("save_checkpoints", False):
            raise UsageError(
                "WandbLoggerCallback(upload_checkpoints=True): log result.checkpoint as an artifact after fit()."
            )
        if api_key is not None or api_key_file is not None:
            raise UsageError(
                "WandbLoggerCallback(api_key=...): set WANDB_API_KEY in the environment, or call wandb.login()."
            )
        self._wandb = _required("wandb", "WandbLoggerCallback")
        self._options, self._excludes = {"project": project, "group": group, **options}, set(excludes or ())
        self._logs_config, self._runs = log_config, dict[str, Any]()

    def log_trial_start(self, trial: LiveTrial) -> None:
        if trial.trial_id not in self._runs:
            options = {**self._options, "group": self._options["group"] or trial.experiment_dir_name}
            config = {name: value for name, value in flat_params(trial.config).items() if name not in self._excludes}
            self._runs[trial.trial_id] = self._wandb.init(
                name=str(trial), config=config, reinit="create_new", **{"id": None, **options}
            )

    def log_trial_result(self, iteration: int, trial: LiveTrial, result: dict[str, Any]) -> None:
        found: dict[str, Any] = {n: value for n, value in _numbers(result).items() if n not in self._excludes}
        if self._logs_config:  # a population changes it on the way
            found |= {f"config/{n}": v for n, v in flat_params(trial.config).items() if n not in self._excludes}
        self._runs[trial.trial_id].log(found)

    def log_trial_end(self, trial: LiveTrial, failed: bool = False) -> None:
        self._runs[trial.trial_id].finish(exit_code=1 if failed else 0)


def setup_wandb(config: Mapping[str, Any] | None = None, rank_zero_only: bool = True, **options: Any) -> Any:
    """Open a run of Weights & Biases in a trial, in the group of the search, and return it."""
    del rank_zero_only  # a trial is one process
    wandb, session = _required("wandb", "setup_wandb"), current()
    given = {name: value for name, value in options.items() if name not in ("api_key", "api_key_file")}
    if session is not None:
        given.setdefault("group", session.settings.experiment_name)
        given.setdefault("name", session.context.name)
    return wandb.init(config=flat_params(config or {}), reinit=True, **given)


def setup_mlflow(
    config: Mapping[str, Any] | None = None,
    tracking_uri: str | None = None,
    registry_uri: str | None = None,
    experiment_id: str | None = None,
    experiment_name: str | None = None,
    tracking_token: str | None = None,
    artifact_location: str | None = None,
    run_name: str | None = None,
    create_experiment_if_not_exists: bool = False,
    tags: Mapping[str, Any] | None = None,
    rank_zero_only: bool = True,
) -> Any:
    """Open a run of MLflow in a trial, with its configuration, and return the module ``mlflow``."""
    del rank_zero_only  # a trial is one process
    if tracking_token is not None or artifact_location is not None:
        raise UsageError(
            "setup_mlflow(tracking_token=, artifact_location=): set MLFLOW_TRACKING_TOKEN in the environment, and make "
            "the experiment with its location beforehand."
        )
    mlflow, session = _required("mlflow", "setup_mlflow"), current()
    if tracking_uri is not None:
        mlflow.set_tracking_uri(tracking_uri)
    if registry_uri is not None:
        mlflow.set_registry_uri(registry_uri)
    may_make = create_experiment_if_not_exists or not experiment_name
    if not may_make and mlflow.get_experiment_by_name(experiment_name) is None:
        raise UsageError(
            f"setup_mlflow(experiment_name={experiment_name!r}): there is none of this name; make it, or write "
            "create_experiment_if_not_exists=True."
        )
    if experiment_id or experiment_name:
        mlflow.set_experiment(experiment_name, experiment_id=experiment_id)
    while mlflow.active_run() is not None:  # that of a former trial of this process
        mlflow.end_run()
    mlflow.start_run(run_name=run_name or (None if session is None else session.context.name), tags=dict(tags or {}))
    mlflow.log_params({name.replace("/", "."): value for name, value in flat_params(config or {}).items()})
    return mlflow
