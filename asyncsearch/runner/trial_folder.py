"""The folder of a trial on this machine: made when the user's code asks for it, and copied into each checkpoint.

In a checkpoint it lies beside what ``save`` wrote, so that both are durable together, or neither is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from asyncsearch.errors import UsageError

NAME = "dir"
"""Its name in a checkpoint, beside ``checkpoint``."""
MOST_BYTES = 100_000_000
"""What all its files may take, if the study does not say otherwise."""
MOST_FILES = 10_000


class FolderPlace(NamedTuple):
    """Where a trial's folder is to be made, and how much it may hold."""

    path: str = ""
    """Empty: in a temporary folder, which is removed with the trial."""
    most_bytes: int = MOST_BYTES


class TrialFolder:
    """The folder of one training. Nothing is made before ``path`` is read, if the loaded checkpoint has no folder."""

    def __init__(self, place: FolderPlace, load: Path | None, trial: str) -> None:
        """Prepare.

        Args:
            place: where to make it.
            load: the checkpoint that the training goes on from; None: there is none.
            trial: its name, for messages.
        """
        self._place, self._trial = place, trial
        self._earlier = None if load is None else load.parent / NAME
        self._path: Path | None = None

    @property
    def path(self) -> Path:
        """The folder, with what was in it at the checkpoint that the training goes on from.

        Raises:
            OSError: it cannot be made.
        """
        if self._path is None:
            self._path = self._made()
        return self._path

    @property
    def scratch(self) -> Path | None:
        """The folder in which the folders of trials are made; None: that of the system."""
        return Path(self._place.path).parent if self._place.path else None

    def copy_beside(self, checkpoint: Path) -> None:
        """Copy the folder into a new checkpoint, if there is one.

        Raises:
            UsageError: it holds too much.
            OSError: it cannot be copied.
        """
        self.require_small()
        _copy_if_any(self._found(), checkpoint.parent / NAME)

    def require_small(self) -> None:
        """Check that the folder may be stored.

        Raises:
            UsageError: it holds too much.
        """
        if self._path is not None and self._path.is_dir():
            require_small(self._path, self._place.most_bytes, self._trial)

    def _made(self) -> Path:
        path = Path(self._place.path) if self._place.path else self._temporary()
        path.mkdir(parents=True, exist_ok=True)
        _copy_if_any(self._found(), path)
        return path

    def _temporary(self) -> Path:
        path = Path(tempfile.mkdtemp(prefix="asyncsearch-trial-"))
        weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
        return path

    def _found(self) -> Path | None:
        """Return the folder as it is now; None: there is none."""
        path = self._earlier if self._path is None else self._path
        return path if path is not None and path.is_dir() else None


def require_small(folder: Path, most_bytes: int, trial: str) -> None:
    """Check that a trial's folder may be stored.

    Raises:
        UsageError: it holds too much, or a name that no store takes.
    """
    entries = list(_entries(folder))
    _require_text([name for name, _ in entries], trial)
    files = [entry for _, entry in entries if not entry.is_dir(follow_symlinks=False)]
    size = sum(map(_size, files))
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


def _require_text(names: Iterable[str], trial: str) -> None:
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"trial.dir of {trial} holds a name that is not UTF-8, {os.fsencode(name)!r}: give it one that is text."
            ) from None


def copy(source: Path, target: Path) -> None:
    """Copy a folder with its plain files and folders; links, pipes and sockets are left out.

    Raises:
        OSError: it cannot be copied.
    """
    target.mkdir(parents=True, exist_ok=True)
    for name, entry in _entries(source):
        if entry.is_dir(follow_symlinks=False):
            (target / name).mkdir(exist_ok=True)
        else:
            _copy_file(entry.path, target / name)


def _copy_if_any(source: Path | None, target: Path) -> None:
    if source is not None:
        copy(source, target)


def _copy_file(source: str, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # a thread of the user's has just removed it
        shutil.copy2(source, target, follow_symlinks=False)


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0


def _entries(folder: Path, inside: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield the plain files and folders in a folder at any depth, by their names in it, each folder before its files.

    Raises:
        OSError: it cannot be read.
    """
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        name = inside + entry.name
        if entry.is_dir(follow_symlinks=False):
            yield name, entry
            with contextlib.suppress(FileNotFoundError):
                yield from _entries(Path(entry.path), f"{name}/")
        elif entry.is_file(follow_symlinks=False):
            yield name, entry


def _round_up(size: int) -> int:
    """Return a limit that a size keeps to, with one digit that is not 0."""
    power: int = 10 ** (len(str(size)) - 1)
    return (size // power + 1) * power
