"""The callbacks of Tune for XGBoost and LightGBM: each round is a report of all sets and metrics, "valid-logloss"."""

from __future__ import annotations

import functools
import importlib
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.ray.callbacks.reported_metrics import NamedMetrics, chosen
from asyncsearch.ray.trial.checkpoints import DirCheckpoint
from asyncsearch.ray.trial.present_trial import report

Postprocess = Callable[[dict[str, Any]], dict[str, Any]]


class RoundReports:
    """The common part of both: which rounds are reported, and which are saved with the report."""

    default_file = "model.ubj"

    def __init__(
        self,
        metrics: NamedMetrics = None,
        filename: str = "",
        frequency: int = 0,
        checkpoint_at_end: bool = True,
        results_postprocessing_fn: Postprocess | None = None,
    ) -> None:
        self._metrics, self._file, self._every = metrics, filename or self.default_file, frequency
        self._saves_last, self._changes = checkpoint_at_end, results_postprocessing_fn
        self._saves = type(self).__name__ != "TuneReportCallback"
        self._at = -1

    def report_round(self, number: int, values: Mapping[str, float], model: Any) -> None:
        """Report a round, from 0."""
        made = chosen(self._metrics, self._changes(dict(values)) if self._changes else values, type(self).__name__)
        self._at = number
        if self._saves and self._every and (number + 1) % self._every == 0:
            self.report_saved(made, model)
        else:
            report(made)

    def report_saved(self, metrics: Mapping[str, Any], model: Any) -> None:
        """Report with the model."""
        with tempfile.TemporaryDirectory(prefix="asyncsearch-checkpoint-") as folder:
            model.save_model(str(Path(folder) / self._file))
            report(metrics, checkpoint=DirCheckpoint(folder))


def _required(library: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise UsageError(f"This callback needs {library}, which is not installed.") from error


@functools.cache
def xgboost_callback(name: str) -> type[Any]:
    """Return the callback of XGBoost of a name."""
    base: Any = _required("xgboost").callback.TrainingCallback

    class XGBoostReport(RoundReports, base):  # type: ignore[misc]
        """Reports after each round."""

        def after_iteration(self, model: Any, epoch: int, evals_log: Mapping[str, Mapping[str, Any]]) -> bool:
            """Report a round."""
            values: dict[str, float] = {}
            for data, metrics in evals_log.items():
                for metric, found in metrics.items():
                    last = found[-1]
                    values[f"{data}-{metric}"] = last[0] if isinstance(last, tuple) else last
            self._last = values
            self.report_round(epoch, values, model)
            return False

        def after_training(self, model: Any) -> Any:
            """Report the model once more at the end, if the last round was not saved."""
            if self._saves and self._saves_last and not (self._every and (self._at + 1) % self._every == 0):
                changed = self._changes(dict(self._last)) if self._changes else self._last
                self.report_saved(chosen(self._metrics, changed, name), model)
            return model

        @classmethod
        def get_model(cls, checkpoint: DirCheckpoint, filename: str = "model.ubj") -> Any:
            """Return the model of a checkpoint."""
            booster = _required("xgboost").Booster()
            with checkpoint.as_directory() as folder:
                booster.load_model(str(Path(folder) / filename))
            return booster

    XGBoostReport.__name__ = name
    return XGBoostReport


@functools.cache
def lightgbm_callback(name: str) -> type[Any]:
    """Return the callback of LightGBM of a name."""
    _required("lightgbm")

    class LightGBMReport(RoundReports):
        """Reports after each round."""

        default_file = "model.txt"
        order = 20
        before_iteration = False

        @classmethod
        def get_model(cls, checkpoint: DirCheckpoint, filename: str = "model.txt") -> Any:
            """Return the model of a checkpoint."""
            with checkpoint.as_directory() as folder:
                return _required("lightgbm").Booster(model_file=str(Path(folder) / filename))

        def __call__(self, env: Any) -> None:
            values = {}
            for entry in env.evaluation_result_list or ():
                if len(entry) >= 5:
                    values[f"{entry[0]}-{entry[1]}-mean"], values[f"{entry[0]}-{entry[1]}-stdv"] = entry[2], entry[4]
                else:
                    values[f"{entry[0]}-{entry[1]}"] = entry[2]
            is_last = env.iteration == env.end_iteration - 1
            if self._saves and self._saves_last and is_last:
                self.report_saved(chosen(self._metrics, values, name), env.model)
            else:
                self.report_round(env.iteration, values, env.model)

    LightGBMReport.__name__ = LightGBMReport.__qualname__ = name
    return LightGBMReport


def __getattr__(name: str) -> Any:
    library, _, callback = name.partition("_")
    if library == "xgboost":
        return xgboost_callback(callback)
    if library == "lightgbm":
        return lightgbm_callback(callback)
    raise AttributeError(name)
