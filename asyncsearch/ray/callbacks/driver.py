"""Callbacks of a program, which the driver calls one at a time: ``tune.Callback``, its loggers, and what it sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asyncsearch.errors import UsageError


class LiveTrial:
    """A trial as callbacks see it while it runs."""

    def __init__(self, trial_id: str, config: Any, experiment: str, folder: str) -> None:
        self.trial_id, self.config, self.experiment_tag = trial_id, config, trial_id
        self.experiment_dir_name = experiment
        self.logdir = self.local_path = self.path = folder
        """A folder on the driver; the trial's own files come to the store at its end."""
        self.status = "PENDING"
        self.last_result: dict[str, Any] = {}
        self.evaluated_params: dict[str, Any] = {}
        self.checkpoint: Any = None
        self.error_file = self.pickled_error_file = None

    @property
    def trainable_name(self) -> str:
        """The name of the search."""
        return self.experiment_dir_name

    def __str__(self) -> str:
        return f"{self.experiment_dir_name}_{self.trial_id}"

    __repr__ = __str__


class DriverCallback:
    """The calls of a program on the driver as its search goes on; in programs it is ``tune.Callback``."""

    def setup(
        self, stop: Any = None, num_samples: int | None = None, total_num_samples: int | None = None, **info: Any
    ) -> None:
        """Called before the first trial."""

    def on_step_begin(self, iteration: int, trials: list[LiveTrial], **info: Any) -> None:
        """Called before each report: here that is a step."""

    def on_step_end(self, iteration: int, trials: list[LiveTrial], **info: Any) -> None:
        """Called after each report."""

    def on_trial_start(self, iteration: int, trials: list[LiveTrial], trial: LiveTrial, **info: Any) -> None:
        """Called when a trial begins, or begins again."""

    def on_trial_restore(self, iteration: int, trials: list[LiveTrial], trial: LiveTrial, **info: Any) -> None:
        """Called when a trial goes on from a checkpoint."""

    def on_trial_save(self, iteration: int, trials: list[LiveTrial], trial: LiveTrial, **info: Any) -> None:
        """Called when a trial has reported a checkpoint."""

    def on_trial_result(
        self, iteration: int, trials: list[LiveTrial], trial: LiveTrial, result: dict[str, Any], **info: Any
    ) -> None:
        """Called after each report."""

    def on_trial_complete(self, iteration: int, trials: list[LiveTrial], trial: LiveTrial, **info: Any) -> None:
        """Called when a trial has ended without failing."""

    def on_trial_recover(self, iteration: int, trials: list[LiveTrial], trial: LiveTrial, **info: Any) -> None:
        """Called when a trial has failed, or has lost its worker, and is to begin again."""

    def on_trial_error(self, iteration: int, trials: list[LiveTrial], trial: LiveTrial, **info: Any) -> None:
        """Called when a trial has failed."""

    def on_checkpoint(
        self, iteration: int, trials: list[LiveTrial], trial: LiveTrial, checkpoint: Any, **info: Any
    ) -> None:
        """Called when a trial has reported a checkpoint."""

    def on_experiment_end(self, trials: list[LiveTrial], **info: Any) -> None:
        """Called after the last trial."""

    def get_state(self) -> Any:
        """Never called: see ``without_state``."""
        return None

    def set_state(self, state: Any) -> None:
        """Never called."""


class LoggerCallback(DriverCallback):
    """A callback that writes what trials report."""

    def log_trial_start(self, trial: LiveTrial) -> None:
        """Called when a trial begins."""

    def log_trial_restore(self, trial: LiveTrial) -> None:
        """Called when a trial goes on from a checkpoint."""

    def log_trial_save(self, trial: LiveTrial) -> None:
        """Called when a trial has reported a checkpoint."""

    def log_trial_result(self, iteration: int, trial: LiveTrial, result: dict[str, Any]) -> None:
        """Called after each report."""

    def log_trial_end(self, trial: LiveTrial, failed: bool = False) -> None:
        """Called when a trial has ended."""

    def on_trial_start(self, iteration: int, trials: list[LiveTrial], trial: LiveTrial, **info: Any) -> None:
        self.log_trial_start(trial)

    def on_trial_restore(self, iteration: int, trials: list[LiveTrial], trial: LiveTrial, **info: Any) -> None:
        self.log_trial_restore(trial)

    def on_trial_save(self, iteration: int, trials: list[LiveTrial], trial: LiveTrial, **info: Any) -> None:
        self.log_trial_save(trial)

    def on_trial_result(
        self, iteration: int, trials: list[LiveTrial], trial: LiveTrial, result: dict[str, Any], **info: Any
    ) -> None:
        self.log_trial_result(iteration, trial, result)

    def on_trial_complete(self, iteration: int, trials: list[LiveTrial], trial: LiveTrial, **info: Any) -> None:
        self.log_trial_end(trial, failed=False)

    def on_trial_error(self, iteration: int, trials: list[LiveTrial], trial: LiveTrial, **info: Any) -> None:
        self.log_trial_end(trial, failed=True)


class StoredByStudy(LoggerCallback):
    """The loggers of Ray's own files: the journal has what they write, ``study.tensorboard()`` makes event files."""

    def __init__(self, *_given: Any, **_named: Any) -> None:
        """Take whatever they take."""


class TableReporter:
    """Ray's reporters of progress: the table of the search is shown in their place."""

    def __init__(self, *_given: Any, **_named: Any) -> None:
        """Take whatever they take."""

    def add_metric_column(self, metric: str, representation: str | None = None) -> None:
        """Do nothing: the table has all metrics."""

    def add_parameter_column(self, parameter: str, representation: str | None = None) -> None:
        """Do nothing: the table has all parameters."""


def called_callbacks(given: Sequence[Any] | None) -> list[DriverCallback]:
    """Return the callbacks that have something to do.

    Raises:
        UsageError: one is no ``tune.Callback``.
    """
    for one in given or ():
        if not isinstance(one, DriverCallback):
            raise UsageError(f"callbacks=[{type(one).__name__}(...)] is no tune.Callback: derive its class from it.")
    return [one for one in given or () if type(one) is not StoredByStudy]  # a class derived from it may do more


def without_state(callbacks: Sequence[DriverCallback]) -> list[str]:
    """Return sentences on callbacks whose state Ray would keep for a driver that goes on, and nobody keeps here."""
    kinds = dict.fromkeys(type(one) for one in callbacks if type(one).get_state is not DriverCallback.get_state)
    return [
        f"{kind.__name__}.get_state() is not called here: in a driver that goes on, the callback begins anew. The "
        "results have what earlier trials have reported."
        for kind in kinds
    ]


def flat_params(config: Any, prefix: str = "", separator: str = "/") -> dict[str, Any]:
    """Return the values of a configuration with flat names."""
    found: dict[str, Any] = {}
    for name, value in config.items() if isinstance(config, Mapping) else ():
        key = f"{prefix}{name}"
        found |= flat_params(value, f"{key}{separator}", separator) if isinstance(value, Mapping) else {key: value}
    return found
