"""Saves a checkpoint by functions of the user, or for objects of the user; again where the disk could not take it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from asyncsearch.errors import CheckpointError, StoreError, UsageError
from asyncsearch.files.contents import is_changed
from asyncsearch.files.plain import is_folder
from asyncsearch.runner.failures import UnreadableCheckpointError
from asyncsearch.runner.refusing_disk import is_doubtful, refusal_of
from asyncsearch.trainable import LoadFunction, SaveFunction

_DOUBTS = 5
"""So often in a row ``save`` may fail on a disk that takes what is written."""


def hooks_of(
    trial: str, state: Mapping[str, Any] | None, save: SaveFunction | None, load: LoadFunction | None, untrusted: str
) -> tuple[SaveFunction | None, LoadFunction | None]:
    """Return the functions that save and load: those of the user, or those for the objects of ``state``.

    Args:
        trial: its name, for messages.
        state: the objects by name.
        save: the user's function.
        load: the user's function.
        untrusted: folder of the checkpoints, if nothing may be unpickled from it; else empty.

    Raises:
        UsageError: both were given, or an object cannot be saved.
    """
    if state is None:
        return save, load
    if save is not None or load is not None:
        raise UsageError(f"{trial} called epochs(state=...) with save= or load=, which do the same: leave out either.")
    # Imported here: a runner whose trials save by themselves needs none of it.
    from asyncsearch.trainers.state.saved_state import SavedState

    saved = SavedState(state, untrusted)
    return saved.save, saved.load


def read(load: LoadFunction, checkpoint: Path) -> None:
    """Load a checkpoint.

    Raises:
        UnreadableCheckpointError: it is not whole, or has been damaged since it was fetched.
        Exception: by ``load``.
    """
    try:
        load(checkpoint)
    except Exception as error:
        if not isinstance(error, CheckpointError) and not is_changed(checkpoint.parent):
            raise
        raise UnreadableCheckpointError(
            f"The checkpoint to go on from cannot be read whole ({type(error).__name__}: {error})."
        ) from error


def write(save: SaveFunction, place: Callable[[bool, str], Path], is_needed: Callable[[], bool], where: str) -> None:
    """Save, and again where the disk could not take it: the training waits if it needs the checkpoint.

    Args:
        save: writes the checkpoint to a path.
        place: returns a path, given whether the checkpoint is needed and how the disk has refused it last.
        is_needed: returns whether the training cannot go on without the checkpoint.
        where: trial and resource, for messages.

    Raises:
        StoreError: the disk could not take it, and the training goes on without it.
        UsageError: nothing was written.
        Exception: by ``save``.
    """
    refused, doubts = "", 0
    while True:
        needed = is_needed()
        path = place(needed, refused)
        try:
            save(path)
        except Exception as error:
            refused = refusal_of(path.parent, error)
            doubts = doubts + 1 if refused and is_doubtful(path.parent, error) else 0
            if not refused or doubts == _DOUBTS:  # else a server of the user's that is away would end each run
                raise
            if not needed:
                raise StoreError(f"There is no place for a checkpoint on this worker: {refused}") from error
        else:
            _require_written(path, where)
            return


def _require_written(path: Path, where: str) -> None:
    if _is_nothing(path):
        raise UsageError(
            f"save wrote nothing for {where}: it must write a file at the given path ({path}), or make a folder there"
            " and write into it."
        )


def _is_nothing(path: Path) -> bool:
    """Return whether nothing lies at a path, or an empty folder; what cannot be read is refused at its commit."""
    if not is_folder(path):
        return not os.path.lexists(path)
    try:
        return not os.listdir(path)
    except OSError:
        return False
