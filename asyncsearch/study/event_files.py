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
