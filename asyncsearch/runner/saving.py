"""Checkpoints by functions of the user, or for objects of the user; saved again where the disk could not take them."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from asyncsearch.errors import CannotPauseError, CheckpointError, StoreError, UsageError
from asyncsearch.files.contents import is_changed
from asyncsearch.files.plain import is_folder
from asyncsearch.runner.failures import UnreadableCheckpointError
from asyncsearch.runner.timeline import LaneTimeline
from asyncsearch.trainable import LoadFunction, SaveFunction

DOUBTS = 5
"""So often in a row ``save`` may fail on a disk that is not full."""


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

    Raises as ``placed``, and:
        UsageError: nothing was written.
    """
    _require_written(placed(save, place, is_needed), where)


def placed(save: SaveFunction, place: Callable[[bool, str], Path], is_needed: Callable[[], bool]) -> Path:
    """Save as ``write``, whatever is written, and return the path.

    Args:
        save: writes the checkpoint to a path.
        place: returns a path, given whether the checkpoint is needed and how the disk has refused it last.
        is_needed: returns whether the training cannot go on without the checkpoint.

    Raises:
        StoreError: the disk could not take it, and the training goes on without it.
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
            if not refused or doubts == DOUBTS:  # else a server of the user's that is away would end each run
                raise
            if not needed:
                raise StoreError(f"There is no place for a checkpoint on this worker: {refused}") from error
        else:
            return path


def _require_written(path: Path, where: str) -> None:
    """Refuse, by a ``UsageError``, a ``save`` that has written nothing."""
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


HOW_TO_PAUSE = (
    'write the training as `for epoch in trial.epochs(state={"net": net, "opt": opt}):`, or with your own '
    "`trial.epochs(save=..., load=...)`, or use a scheduler that does not pause"
)


def check_hooks(
    name: str, timeline: LaneTimeline, is_loaded: bool, save: SaveFunction | None, load: LoadFunction | None
) -> None:
    """Check the arguments of ``epochs`` against the requirements of a lane.

    Args:
        name: name of the trial.
        timeline: the lane.
        is_loaded: whether the lane resumes from a checkpoint.
        save: argument of ``epochs``.
        load: argument of ``epochs``.

    Raises:
        CannotPauseError: a required function is missing.
    """
    if is_loaded and load is None:
        raise CannotPauseError(
            f"{name} must resume from its checkpoint at {timeline.start}, but epochs() was called without load=: "
            f"{HOW_TO_PAUSE}."
        )
    missing = [hook for hook, given in (("save=", save), ("load=", load)) if given is None]
    pauses = timeline.pauses()
    if pauses and missing:
        raise CannotPauseError(
            f"{name} must pause at {pauses[0]}, but epochs() was called without {' and '.join(missing)}: "
            f"{HOW_TO_PAUSE}."
        )


_OF_THE_DISK = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EROFS,
        errno.EIO,
        errno.ESTALE,
        errno.ENODEV,
        errno.ENOTCONN,
        errno.EHOSTDOWN,
        errno.ETIMEDOUT,
    }
)
_OF_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The disk may take a small file and not a checkpoint."""
_PROBE_BYTES = 65_536


def refusal_of(folder: Path, error: BaseException) -> str:
    """Return why the disk of a folder took no checkpoint. Empty if the disk takes it, so that ``save`` is to blame.

    Frameworks turn the system's error into one of their own, such as torch into a RuntimeError: so the disk is tried.
    """
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        if isinstance(one, OSError) and one.errno in _OF_THE_DISK and _is_inside(folder, one.filename):
            return f"Cannot write in {str(folder)!r}: {one.strerror}."
        one = one.__cause__ or one.__context__
    return _probe(folder)


def is_doubtful(folder: Path, error: BaseException) -> bool:
    """Return whether an error that ``refusal_of`` took for the disk's may come from elsewhere, as from a connection.

    It names no file, and the disk takes what is written now.
    """
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        if isinstance(one, OSError) and (one.filename is not None or one.errno in _OF_SPACE):
            return False
        one = one.__cause__ or one.__context__
    return not _probe(folder)


def _is_inside(folder: Path, name: object) -> bool:
    """Return whether an error concerns a folder; an error while writing names no file."""
    return not isinstance(name, str) or Path(os.path.abspath(name)).is_relative_to(folder)


def _probe(folder: Path) -> str:
    path = folder / f".asyncsearch-probe-{uuid.uuid4().hex}"
    try:
        try:
            with open(path, "wb") as file:
                file.write(bytes(_PROBE_BYTES))
                file.flush()
                os.fsync(file.fileno())  # a remote disk that is full may take the write, and refuse it here
        finally:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
    except OSError as error:
        if _is_closed(folder):
            return ""
        return f"Cannot write in {str(folder)!r}: {error.strerror}."
    return ""


def _is_closed(folder: Path) -> bool:
    """Return whether ``save`` has removed, replaced or closed the folder that it got, which is no fault of the disk."""
    try:
        mode = os.lstat(folder).st_mode
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return not stat.S_ISDIR(mode) or mode & 0o700 != 0o700
