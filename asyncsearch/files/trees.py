"""Walks, copies and removes folders of any depth, and follows no link in them.

Nothing here calls itself: a folder 1,000 levels deep would exceed Python's limit, and its path that of the system. One
descriptor goes down by a name and up by ``..``, and whoever moves a folder meanwhile leads it nowhere else.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from asyncsearch.files.plain import AnyPath, NotPlainError, open_file, open_to_read

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_LOOK = getattr(os, "O_PATH", 0)
_ALL = 0o700
"""The rights of the owner of a folder who reads, fills and empties it."""


class TargetError(OSError):
    """Where a copy is made takes no more, or cannot be reached; what is copied is not to blame."""


class Entry(NamedTuple):
    """Something in a folder that is walked."""

    name: str
    """Its path inside the folder, with ``/``."""
    status: os.stat_result
    """Of itself: a link is not followed."""
    at: int
    """Descriptor of the folder that it lies in, until the walk goes on."""

    @property
    def base(self) -> str:
        """Its name in the folder that it lies in."""
        return self.name.rpartition("/")[2]

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_file(self) -> bool:
        """Whether it is a plain file."""
        return stat.S_ISREG(self.status.st_mode)


class _Level(NamedTuple):
    """A folder on the way down."""

    entry: Entry | None
    """None: the folder that is walked."""
    names: Iterator[str]
    identity: tuple[int, int]


class _Left(NamedTuple):
    """A folder whose contents were walked; its ``at`` is open again."""

    entry: Entry


def walk(
    folder: AnyPath,
    *,
    into: Callable[[Entry], bool] = lambda entry: True,
    failed: Callable[[str, OSError], None] | None = None,
    follow: bool = False,
) -> Iterator[Entry]:
    """Yield the entries of a folder, at any depth, in the order of names, each folder before its contents.

    Args:
        folder: to walk; a link is refused.
        into: whether to look into a folder.
        failed: called with the name of a folder in it that cannot be read, which is left out; with None the error is
            raised.
        follow: whether ``folder`` itself may be a link.

    Raises:
        OSError: it cannot be read.
    """
    for step in _steps(folder, into, failed or _raised, follow=follow, opened=_open_folder):
        if isinstance(step, Entry):
            yield step


def _raised(_name: str, error: OSError) -> None:
    raise error


def _steps(
    folder: AnyPath,
    into: Callable[[Entry], bool],
    failed: Callable[[str, OSError], None],
    *,
    follow: bool,
    opened: Callable[[str, int], int],
) -> Iterator[Entry | _Left]:
    """Yield each thing, and each folder once more behind its contents."""
    at = os.open(folder, _FOLDER & ~getattr(os, "O_NOFOLLOW", 0) if follow else _FOLDER)
    try:
        levels = [_level(None, at)]
        while levels:
            level = levels[-1]
            name = next(level.names, None)
            if name is None:
                levels.pop()
                if level.entry is not None:
                    at = _up(at, levels[-1].identity)
                    yield _Left(level.entry._replace(at=at))
                continue
            try:
                status = os.stat(name, dir_fd=at, follow_symlinks=False)
            except FileNotFoundError:  # removed meanwhile
                continue
            entry = Entry(name if level.entry is None else f"{level.entry.name}/{name}", status, at)
            yield entry
            if entry.is_folder and into(entry):
                try:
                    below = opened(name, at)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    failed(entry.name, error)
                    continue
                os.close(at)
                at = below
                levels.append(_level(entry, at))
    finally:
        os.close(at)


def _level(entry: Entry | None, at: int) -> _Level:
    status = os.fstat(at)
    return _Level(entry, iter(sorted(os.listdir(at))), (status.st_dev, status.st_ino))


def _open_folder(name: str, at: int) -> int:
    return os.open(name, _FOLDER, dir_fd=at)


def _up(at: int, identity: tuple[int, int]) -> int:
    """Return the folder above an open one, which is closed."""
    above = os.open("..", _FOLDER, dir_fd=at)
    status = os.fstat(above)
    # Whoever moves the open folder meanwhile leads ``..`` elsewhere, and all below that would be removed or copied.
    if (status.st_dev, status.st_ino) != identity:
        os.close(above)
        raise OSError(errno.ESTALE, "a folder was moved while it was read")
    os.close(at)
    return above


def remove_tree(path: AnyPath) -> bool:
    """Remove a file, a link, or a folder with its contents; return whether it is gone.

    What cannot be removed stays, and so do the folders above it; all else goes. A folder that its owner has closed to
    himself is opened first.
    """
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)
            return True
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            _open_up(os.open(path, _LOOK | _FOLDER)) if _LOOK else os.chmod(path, _ALL)
        _empty(path)
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _empty(folder: AnyPath) -> None:
    for step in _steps(folder, lambda entry: True, lambda name, error: None, follow=False, opened=_open_to_empty):
        entry = step.entry if isinstance(step, _Left) else step
        if entry.is_folder != isinstance(step, _Left):
            continue
        with contextlib.suppress(OSError):  # it is in use, or belongs to somebody else
            (os.rmdir if entry.is_folder else os.unlink)(entry.base, dir_fd=entry.at)


def _open_to_empty(name: str, at: int) -> int:
    """Open a folder whose contents are to be removed, with the rights that this takes if it is one's own."""
    if _LOOK:
        with contextlib.suppress(OSError):
            seen = os.open(name, _LOOK | _FOLDER, dir_fd=at)
            _open_up(seen)
    return _open_folder(name, at)


def _open_up(seen: int) -> None:
    """Give its owner all rights to a folder, and close its descriptor."""
    try:
        mode = stat.S_IMODE(os.fstat(seen).st_mode)
        if mode & _ALL != _ALL:
            os.chmod(f"/proc/self/fd/{seen}", mode | _ALL)  # by its descriptor: the name may lead elsewhere by now
    finally:
        os.close(seen)


def copy_tree(source: AnyPath, target: Path, *, as_links: bool = False) -> None:
    """Copy a folder with its folders and its plain files, which keep their times; nothing else is copied.

    Args:
        source: the folder; a link is refused.
        target: made if need be; a link is refused.
        as_links: whether to make hard links of files, which take no space.

    Raises:
        TargetError: the copy cannot be made.
        OSError: the source cannot be read.
    """
    with _making():
        target.mkdir(parents=True, exist_ok=True)
        if target.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(target))
    for entry in walk(source):
        if entry.is_folder:
            with _making():
                (target / entry.name).mkdir(exist_ok=True)
        elif entry.is_file and as_links:
            with _making():
                os.link(entry.base, target / entry.name, src_dir_fd=entry.at, follow_symlinks=False)
        elif entry.is_file:
            _copy_file(entry, target / entry.name)


@contextlib.contextmanager
def _making() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TargetError(error.errno, error.strerror, error.filename) from error


def _copy_file(entry: Entry, target: Path) -> None:
    """Copy a plain file up to the length that it has now: one that grows meanwhile would never end."""
    try:
        file = open_to_read(entry.base, at=entry.at)
    except (FileNotFoundError, NotPlainError):  # it was removed or replaced meanwhile
        return
    with file:
        status = os.fstat(file.fileno())
        with _making():
            copy = os.fdopen(open_file(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb", buffering=0)
        with copy:
            left = status.st_size
            while left and (block := memoryview(file.read(min(left, 1 << 20)))):
                with _making():
                    left -= len(block)
                    while block:
                        block = block[copy.write(block) :]
            os.fchmod(copy.fileno(), stat.S_IMODE(status.st_mode))
            os.utime(copy.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))


def size_bytes(folder: AnyPath) -> int:
    """Return the total size of the plain files in a folder."""
    return sum(entry.status.st_size for entry in walk(folder) if entry.is_file)
