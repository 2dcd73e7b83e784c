"""The folder for TensorBoard: the reports of a study, and beside them the event files that its trials wrote."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from asyncsearch.errors import CheckpointError, NoTrialsError
from asyncsearch.ids import CheckpointRef, trial_name
from asyncsearch.report.plots.plots import PlottedStudy
from asyncsearch.report.tensorboard.logdir import write_logdir
from asyncsearch.runner.trial_folder import NAME
from asyncsearch.space.domains import Domain
from asyncsearch.store.base_store import Store
from asyncsearch.study.trial_dirs import place_in, stored_dirs

_STORED = ".stored"
"""Beside the event files of a trial: which folder of it they were copied from."""


def write_event_files(study: PlottedStudy, logdir: Path, created_s: float, domains: Mapping[str, Domain]) -> Path:
    """Write or update the folder, and return it; see ``Results.tensorboard``.

    Raises:
        UsageError: the extra ``tensorboard`` is not installed, or the folder cannot be written.
        NoTrialsError: no trial has begun yet.
    """
    if not write_logdir(study, logdir, created_s, domains):
        raise NoTrialsError(f"{study.name!r} has no trial that has begun: write study.run(num_trials=64) first.")
    for trial, stored in stored_dirs(study.store).items():
        _copy_new(study.store, stored, logdir / trial_name(trial))
    return logdir


def _copy_new(store: Store, stored: CheckpointRef, folder: Path) -> None:
    """Copy the event files of a trial, unless those of this stored folder were copied before.

    Raises:
        CheckpointError: the stored folder is damaged; one that was removed is none any more.
    """
    note = folder / _STORED
    if note.is_file() and note.read_text(encoding="utf-8") == str(stored):
        return
    place = place_in(store)
    try:
        with place.fetch(stored) as found:
            for file in filter(Path.is_file, found.rglob("*tfevents*")):  # folders may be named so, too
                _bring_up_to_date(file, folder / NAME / file.relative_to(found))
    except CheckpointError:
        if stored in place.checkpoints(stored.node):
            raise
        return  # the search has just ended, and a later one is there
    folder.mkdir(parents=True, exist_ok=True)
    note.write_text(str(stored), encoding="utf-8")


def _bring_up_to_date(source: Path, target: Path) -> None:
    """Make a file equal to another one; where that is longer, append, since a TensorBoard may be reading it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    data, known = source.read_bytes(), target.read_bytes() if target.exists() else b""
    if known and data.startswith(known):
        with target.open("ab") as file:
            file.write(data[len(known) :])
    else:
        shutil.copy2(source, target)
