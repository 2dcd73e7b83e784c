"""Tells a disk that takes no checkpoint from a ``save`` that fails."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from pathlib import Path

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
    """Return why the disk of a folder took no checkpoint; empty: it takes what is written, so ``save`` is to blame.

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
                os.fsync(file.fileno())
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
