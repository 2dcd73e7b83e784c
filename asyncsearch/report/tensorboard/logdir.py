"""The folder that TensorBoard is pointed at: the study itself, and a folder for each trial."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from asyncsearch.errors import UsageError
from asyncsearch.journal.opening import read_records
from asyncsearch.journal.projection import reports
from asyncsearch.report.plots.plots import PlottedStudy
from asyncsearch.report.tensorboard import event_file
from asyncsearch.report.tensorboard.hyper_parameters import shown_parameters
from asyncsearch.report.tensorboard.trial_runs import TrialRun, metrics_of, trial_runs
from asyncsearch.space.domains import Domain


def write_logdir(study: PlottedStudy, logdir: Path, created_s: float, domains: Mapping[str, Domain]) -> list[TrialRun]:
    """Write the reports of a study, or the new ones of them, and return the runs.

    Args:
        study: to show.
        logdir: made if need be.
        created_s: when the study was created, seconds since 1970.
        domains: of its parameters, as far as they are known.

    Raises:
        UsageError: the extra ``tensorboard`` is not installed, the folder shows another study, or it cannot be written.
    """
    event_file.require_tensorboard()
    _require_own(logdir, created_s)
    trials = study.trials
    parameters = shown_parameters([trial.params for trial in trials], domains)
    kinds = {parameter.name: parameter.kind for parameter in parameters}
    runs = trial_runs(trials, reports(read_records(study.store)), kinds)
    metrics = metrics_of(runs, study.config.metric)
    try:
        experiment = event_file.of_experiment(parameters, metrics, created_s)
        event_file.update(logdir, created_s, (parameters, metrics), experiment)
        for run in runs:
            event_file.update(logdir / run.name, run.started_s, run.params, event_file.of_run(run))
    except OSError as error:
        raise UsageError(
            f"{str(logdir)!r} cannot be written: {error}. Name a folder on this machine, study.tensorboard('logs')."
        ) from error
    return runs


def _require_own(logdir: Path, created_s: float) -> None:
    """Refuse a folder with another study, whose trials have the same names and would be shown among these."""
    if event_file.begun_in(logdir) - {int(created_s)}:
        name = f"{logdir}-2"
        raise UsageError(
            f"{str(logdir)!r} shows another study, begun at another time: name a folder of its own, "
            f"study.tensorboard({name!r}) or --logdir {name}, or remove that one."
        )
