"""The folder for TensorBoard: the reports of a study, and beside them the event files that its trials wrote."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from asyncsearch.errors import CheckpointError, NoTrialsError, UsageError
from asyncsearch.files.plain import made_folder, open_file, read_file, read_text
from asyncsearch.files.trees import walk
from asyncsearch.ids import CheckpointRef, trial_name
from asyncsearch.journal.opening import read_records
from asyncsearch.journal.projection import reports
from asyncsearch.report import tensorboard as event_file
from asyncsearch.report.plots.plots import PlottedStudy
from asyncsearch.report.tensorboard import TrialRun, metrics_of, shown_parameters, trial_runs
from asyncsearch.runner.trial_folder import NAME
from asyncsearch.space.domains import Domain
from asyncsearch.store.base_store import Store
from asyncsearch.study.trial_dirs import place_in, stored_dirs

_STORED = ".stored"
"""Beside the event files of a trial: which folder of it they were copied from."""


def write_event_files(study: PlottedStudy, logdir: Path, created_s: float, domains: Mapping[str, Domain]) -> Path:
    """Write or update the folder, and return it; see ``Results.tensorboard``.

    Args:
        study: to show.
        logdir: made if need be.
        created_s: when the study was created, seconds since 1970.
        domains: of its parameters, as far as they are known.

    Raises:
        UsageError: the extra ``tensorboard`` is not installed, the folder shows another study, or it cannot be written.
        NoTrialsError: no trial has begun yet.
    """
    if not _write_reports(study, logdir, created_s, domains):
        raise NoTrialsError(f"{study.name!r} has no trial that has begun: write study.run(num_trials=64) first.")
    for trial, stored in stored_dirs(study.store).items():
        _copy_new(study.store, stored, logdir / trial_name(trial))
    return logdir


def _write_reports(
    study: PlottedStudy, logdir: Path, created_s: float, domains: Mapping[str, Domain]
) -> list[TrialRun]:
    """Write the reports of a study, or the new ones of them, and return the runs: the study, and one for each trial."""
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


def _copy_new(store: Store, stored: CheckpointRef, folder: Path) -> None:
    """Copy the event files of a trial, unless those of this stored folder were copied before.

    Raises:
        CheckpointError: the stored folder is damaged; one that was removed is none any more.
    """
    note = folder / _STORED
    if _noted(note) == str(stored):
        return
    place = place_in(store)
    try:
        with place.fetch(stored) as found:
            for entry in walk(found):
                if entry.is_file and "tfevents" in entry.base:
                    _bring_up_to_date(found / entry.name, folder / NAME, entry.name)
    except CheckpointError:
        if stored in place.checkpoints(stored.node):
            raise
        return  # the search has just ended, and a later one is there
    with _writing(note):
        made_folder(folder.parent, folder.name)
        with os.fdopen(open_file(note, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w", encoding="utf-8") as file:
            file.write(str(stored))


def _noted(note: Path) -> str:
    try:
        return read_text(note, errors="replace")
    except OSError:
        return ""


def _bring_up_to_date(source: Path, folder: Path, name: str) -> None:
    """Make a file below a folder equal to another one; where that is longer, append: a TensorBoard may be reading it.

    Raises:
        UsageError: a link or something else lies in its place.
    """
    target = folder / name
    data = read_file(source)
    with _writing(target):
        made_folder(folder.parent, *folder.relative_to(folder.parent).parts, *name.split("/")[:-1])
        try:
            known = read_file(target)
        except FileNotFoundError:
            known = b""
        is_longer = bool(known) and data.startswith(known)
        flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if is_longer else os.O_TRUNC)
        with os.fdopen(open_file(target, flags), "ab" if is_longer else "wb") as file:
            file.write(data[len(known) :] if is_longer else data)


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"{str(place)!r} cannot be written: {error.strerror or error}. Name another folder,"
            " study.tensorboard('logs'), or remove what lies there."
        ) from error
