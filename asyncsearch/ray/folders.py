"""The folder of a program's search: each run of it is a study in a numbered folder there, and a cut-off one goes on."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

from asyncsearch.actions import EndRun
from asyncsearch.errors import UsageError
from asyncsearch.events import RunRequested
from asyncsearch.files.paths import plain_part
from asyncsearch.journal.opening import read_records, read_study_file
from asyncsearch.store import open_store

_HOME = "studies"


def base_folder(name: str | None, place: object, label: str) -> str:
    """Return the folder of a search.

    Args:
        name: what the program calls it. None means its trainable and the time.
        place: ``storage_path``. None means ``studies``.
        label: the name of its trainable.
    """
    root = _HOME if place is None else os.fspath(place) if isinstance(place, os.PathLike) else str(place)
    root = root.removeprefix("file://")
    if "://" not in root:
        root = str(Path(root).expanduser().absolute())
    stamp = datetime.datetime.now().astimezone().strftime("%Y-%m-%d_%H-%M-%S")
    return f"{root.rstrip('/')}/{plain_part(name or f'{label}_{stamp}')}"


def run_folders(base: str) -> list[str]:
    """Return the folders of the runs of a search, the oldest first."""
    found: list[str] = []
    while read_study_file(open_store(folder := f"{base}/{len(found) + 1}")) is not None:
        found.append(folder)
    return found


def is_cut_off(folder: str) -> bool:
    """Return whether the driver of a run was killed or interrupted before it was done."""
    is_open = True
    for record in read_records(open_store(folder)):
        if isinstance(record.event, RunRequested):
            is_open = True
        for action in record.actions:
            if isinstance(action, EndRun):
                is_open = not action.is_complete
    return is_open


def last_run(path: object) -> str:
    """Return the last run of a search, given its folder or that of a run.

    Raises:
        UsageError: there is none.
    """
    base = base_folder(Path(str(path)).name, str(path).rstrip("/").rpartition("/")[0] or ".", "")
    if "://" not in base and read_study_file(open_store(base)) is not None:
        return base
    found = run_folders(base)
    if not found:
        raise UsageError(
            f"There is no search of this project in {base}: give the folder that fit() named, which is "
            "storage_path/name."
            " What Ray itself has written cannot be gone on with here."
        )
    return found[-1]
