"""Files and folders on a POSIX file system, with explanations of their errors."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from asyncsearch.errors import NotAFileError, StoreError
from asyncsearch.files.plain import NotPlainError
from asyncsearch.files.trees import remove_tree
from asyncsearch.store.syncing import sync_folder

_log = logging.getLogger(__name__)
_NEXT_STEP = {
    errno.ENOSPC: "Free some space there, or choose a store on another disk",
    errno.EDQUOT: "Free some of this user's quota there, or choose a store on another disk",
    errno.EFBIG: "Raise this process's limit on the size of files (ulimit -f)",
    errno.EMFILE: "Raise this process's limit on open files (ulimit -n)",
    errno.EACCES: "Give this user the right to write there, or choose another folder",
    errno.EPERM: "Give this user the right to write there, or choose another folder",
    errno.EROFS: "That disk is mounted for reading only: choose another folder",
    errno.ENOTDIR: "A store and all its parents must be folders: choose another path, or move that file away",
    errno.EEXIST: "A store and all its parents must be folders: choose another path, or move that file away",
    errno.EISDIR: "A folder lies where the store keeps a file: move it away, or choose another store",
    errno.EINVAL: "Move it away, or choose another store",
    errno.ELOOP: "A link lies where the store keeps something of its own: remove the link, or choose another store",
    errno.ENAMETOOLONG: "Choose a shorter path",
    errno.ENOENT: "Something on that path is missing: call prepare() first, or choose a folder that can be made",
    errno.ESTALE: "The shared disk was mounted anew: start this process again",
}

_OTHER_THINGS = (errno.EISDIR, errno.ELOOP)
_OF_THE_PATH = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT)


def next_step(error: BaseException, otherwise: str) -> str:
    """Return the next step that a user can take after an error."""
    return _NEXT_STEP.get(getattr(error, "errno", None) or 0, otherwise)


@contextlib.contextmanager
def explained(doing: str, path: object, choose: str = "") -> Iterator[None]:
    """Turn an error of the operating system into a StoreError with the action, the path and the next step.

    ``choose`` is the next step where the path itself is the cause.
    """
    try:
        yield
    except OSError as error:
        step = next_step(error, "Check that disk, then try again")
        if choose and error.errno in _OF_THE_PATH:
            step = choose
        words = f"Cannot {doing} at {str(path)!r}: {error.strerror or error}. {step}."
        is_other = isinstance(error, NotPlainError) or error.errno in _OTHER_THINGS
        raise (NotAFileError if is_other else StoreError)(words) from error


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte; one system call may write only a part."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def make_folders(*paths: Path) -> None:
    """Make folders and their parents, durably: one sync for all that are new in a folder."""
    grown: dict[Path, None] = {}
    try:
        for path in paths:
            _make_folder(path, grown)
    finally:  # who tries again finds those that were made, and syncs nothing
        for parent in grown:
            sync_folder(parent)


def _make_folder(path: Path, grown: dict[Path, None]) -> None:
    """Make a folder and its parents, and note where there are new names, the outermost first."""
    if path.is_dir():
        return
    _make_folder(path.parent, grown)
    try:
        path.mkdir()
    except FileExistsError:
        if not path.is_dir():
            raise
    grown[path.parent] = None


def write_new(path: Path, data: bytes, *, is_durable: bool = True) -> None:
    """Write a file that does not exist yet, durable except for its name."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        write_all(descriptor, data)
        if is_durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep_away(path: Path, bin_: Path) -> None:
    """Discard a leftover; one that cannot be moved or removed stays, and what comes behind it is swept all the same."""
    try:
        discard(path, bin_)
    except OSError as error:
        if not remove_tree(path):
            _log.warning("%s is a leftover and cannot be removed: %s", path, error)


class FileIdentity(NamedTuple):
    """The identity of an open file, apart from another one that takes its place."""

    path: str
    device: int
    inode: int

    @classmethod
    def of(cls, path: Path, descriptor: int) -> FileIdentity:
        """Return the identity of an open file, which was opened at a path."""
        status = os.fstat(descriptor)
        return cls(str(path), status.st_dev, status.st_ino)

    def is_in_place(self) -> bool:
        """Return whether the path still leads to the file: not once it was removed, moved or replaced."""
        try:
            found = os.stat(self.path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return (found.st_dev, found.st_ino) == (self.device, self.inode)


def is_running(pid: int) -> bool:
    """Return whether a process of this machine is alive."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def discard(path: Path, bin_: Path) -> None:
    """Move a file or folder away atomically, then remove it piece by piece; no error if it is gone.

    Removing it in place would let a late writer commit a half-removed folder.
    """
    taken = bin_ / f"removed-{uuid.uuid4().hex}"
    try:
        os.rename(path, taken)
    except FileNotFoundError:
        return
    remove_tree(taken)  # what remains (an open file on NFS keeps its folder) is swept later


def inside(root: Path, name: str, *, is_folder: bool = False) -> Path:
    """Return the path of a file or folder below ``root``.

    Args:
        root: may be a link, or be reached over links.
        name: what lies below it, with ``/``.
        is_folder: whether the last part is a folder, which may not be a link; ``asyncsearch.files`` opens a file.

    Raises:
        NotAFileError: a folder on the way is a link.
    """
    *folders, last = name.split("/")
    path = root
    for part in [*folders, last] if is_folder else folders:
        path = path / part
        try:
            is_link = stat.S_ISLNK(os.lstat(path).st_mode)
        except OSError:  # whoever uses the path learns why, and can say what for
            break
        if is_link:
            raise NotAFileError(
                f"{str(path)!r} is a link, and the store at {str(root)!r} follows none inside its folder: whoever may"
                " write there could lead it to any file of yours. Remove the link, or move what it leads to in its"
                " place; the whole store may be a link to a folder."
            )
    return root / name
