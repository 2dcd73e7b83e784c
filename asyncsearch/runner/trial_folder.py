"""The folder of a trial on this machine: made when the user's code asks for it, and copied into each checkpoint.

In a checkpoint it lies beside the files of ``save``, so that both are durable together, or neither is.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from asyncsearch.errors import UsageError
from asyncsearch.files.contents import is_of_the_writer
from asyncsearch.files.plain import NotPlainError, is_folder, open_to_read
from asyncsearch.files.trees import Entry, TargetError, copy_tree, remove_tree, walk

NAME = "dir"
"""Its name in a checkpoint, beside ``checkpoint``."""
MOST_BYTES = 100_000_000
"""The most that all its files may take, if the study does not say otherwise."""
MOST_FILES = 10_000
MOST_NAME_BYTES = 900
"""The longest path in it; that of a checkpoint may be a little longer."""


class FolderPlace(NamedTuple):
    """The place where a trial's folder is to be made, and how much it may hold."""

    path: str = ""
    """Empty: in a temporary folder, which is removed with the trial."""
    most_bytes: int = MOST_BYTES


class TrialFolder:
    """The folder of one training. Nothing is made before ``path`` is read, if the loaded checkpoint has no folder."""

    def __init__(self, place: FolderPlace, load: Path | None, trial: str) -> None:
        """Prepare.

        Args:
            place: where to make it.
            load: the checkpoint that the training goes on from. None if there is none.
            trial: its name, for messages.
        """
        self._place, self._trial = place, trial
        self._earlier: Path | None = None
        self._path: Path | None = None
        if load is not None:
            self.goes_on_from(load)

    def goes_on_from(self, load: Path) -> None:
        """Take the files of the checkpoint that the training goes on from."""
        self._earlier = load.parent / NAME

    @property
    def path(self) -> Path:
        """The folder, with its files of the checkpoint that the training goes on from.

        Raises:
            OSError: it cannot be made.
        """
        if self._path is None:
            self._path = self._made()
        return self._path

    @property
    def is_made(self) -> bool:
        """Whether the folder is there."""
        return self._path is not None

    def copy_beside(self, checkpoint: Path) -> None:
        """Copy the folder into a new checkpoint, if there is one.

        Raises:
            UsageError: it holds too much, or what cannot be copied.
            OSError: the disk takes no copy.
        """
        self.require_small()
        self._copy_if_any(checkpoint.parent / NAME)

    def require_small(self) -> None:
        """Check that the folder may be stored.

        Raises:
            UsageError: it holds too much, or is no folder any more.
        """
        if self._path is not None and os.path.lexists(self._path):
            require_small(self._path, self._place.most_bytes, self._trial)

    def _made(self) -> Path:
        path = Path(self._place.path) if self._place.path else self._temporary()
        path.mkdir(parents=True, exist_ok=True)
        self._copy_if_any(path)
        return path

    def _temporary(self) -> Path:
        path = Path(tempfile.mkdtemp(prefix="asyncsearch-trial-"))
        weakref.finalize(self, _remove, path, os.getpid())
        return path

    def _found(self) -> Path | None:
        """Return the folder as it is now. None if there is none."""
        path = self._earlier if self._path is None else self._path
        return path if path is not None and is_folder(path) else None

    def _copy_if_any(self, target: Path) -> None:
        if (source := self._found()) is not None:
            copy(source, target, self._trial)


def _remove(folder: Path, pid: int) -> None:
    if os.getpid() == pid:  # else a forked child ends, and the folder is its parent's
        remove_tree(folder)


def require_small(folder: Path, most_bytes: int, trial: str) -> None:
    """Check that a trial's folder may be stored.

    Raises:
        UsageError: it holds too much, a name that no store takes, or what cannot be read; or it is no folder any more.
        OSError: the disk cannot be read.
    """
    with _its_own_doing(folder, trial):
        entries = list(_plain(folder))
    _require_names([entry.name for entry in entries], trial)
    files = [entry for entry in entries if entry.is_file]
    size = sum(entry.status.st_size for entry in files)
    if len(files) > MOST_FILES:
        raise UsageError(
            f"trial.dir of {trial} holds {len(files):,} files, and {MOST_FILES:,} are allowed: write fewer, or put them"
            " into one archive."
        )
    if size > most_bytes:
        raise UsageError(
            f"trial.dir of {trial} holds {size:,} bytes, and {most_bytes:,} are allowed: write less there, or allow"
            f" more, Study(..., checkpoints=Checkpoints(dir_bytes={_round_up(size):_}))."
        )


def _plain(folder: Path) -> Iterator[Entry]:
    """Yield the plain files and folders in a folder, all of which can be read."""
    for entry in walk(folder):
        if entry.is_file:
            with contextlib.suppress(FileNotFoundError, NotPlainError):  # a thread of the trial has just replaced it
                open_to_read(entry.base, at=entry.at).close()
                yield entry
        elif entry.is_folder:
            yield entry


def _require_names(names: Iterable[str], trial: str) -> None:
    for name in names:
        try:
            size = len(name.encode())
        except UnicodeEncodeError:
            raise UsageError(
                f"trial.dir of {trial} holds a name that is not UTF-8, {os.fsencode(name)!r}: give it one that is text."
            ) from None
        if size > MOST_NAME_BYTES:
            raise UsageError(
                f"trial.dir of {trial} holds a path of {size:,} bytes, and {MOST_NAME_BYTES:,} are allowed,"
                f" {name[:60]!r}...: nest fewer folders in it, or give shorter names."
            )


@contextlib.contextmanager
def _its_own_doing(folder: Path, trial: str) -> Iterator[None]:
    """Tell a file of the trial that cannot be read from a disk that does not answer."""
    try:
        yield
    except OSError as error:
        if isinstance(error, TargetError) or not is_of_the_writer(error) or not os.path.lexists(folder):
            raise
        what = f"{error.filename!r} in trial.dir of {trial}" if is_folder(folder) else f"trial.dir of {trial}"
        raise UsageError(
            f"{what} cannot be read ({error.strerror}): leave plain files and folders there that this user may read,"
            " and the folder itself where it is."
        ) from error


def copy(source: Path, target: Path, trial: str) -> None:
    """Copy a trial's folder with its plain files and folders; links, pipes, sockets and devices are left out.

    Raises:
        UsageError: something in it cannot be read.
        OSError: it cannot be copied: one of the disks does not answer, or takes no more.
    """
    with _its_own_doing(source, trial):
        copy_tree(source, target)


def _round_up(size: int) -> int:
    """Return a limit that a size keeps to, with one digit that is not 0."""
    power: int = 10 ** (len(str(size)) - 1)
    return (size // power + 1) * power
