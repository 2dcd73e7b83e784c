"""Opens plain files alone: what lies in the place of a file may be a pipe, a device, a folder or a link.

Opening a pipe waits for whoever has its other end, for ever if nobody has, and opening a device may do things. A link
may lead to anything of this user's. So each file is looked at before it is opened, and again once it is open.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)  # Windows has none
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}

AnyPath = str | Path


class NotPlainError(OSError):
    """Something else than a plain file lies there, and was not opened."""

    def __init__(self, path: object, mode: int) -> None:
        kind = _KINDS.get(stat.S_IFMT(mode), "no plain file")
        super().__init__(errno.EINVAL, f"it is {kind} in the place of a file", str(path))


def open_file(path: AnyPath, flags: int, rights: int = 0o666, *, at: int | None = None) -> int:
    """Return a descriptor of a plain file, which is made with ``rights`` if ``flags`` say so.

    Args:
        path: of the file.
        flags: of ``os.open``.
        rights: of a file that is made.
        at: descriptor of the folder that a relative path begins at; None means the working directory.

    Raises:
        NotPlainError: it is a folder, pipe, socket or device.
        OSError: it cannot be opened; ELOOP: it is a link.
    """
    try:
        mode = os.stat(path, dir_fd=at, follow_symlinks=False).st_mode
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    else:
        if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
            raise NotPlainError(path, mode)
    descriptor = os.open(path, flags | _SAFE, rights, dir_fd=at)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise NotPlainError(path, mode)
    return descriptor


def open_to_read(path: AnyPath, *, at: int | None = None) -> io.BufferedReader:
    """Return a plain file open for reading; see ``open_file``."""
    return os.fdopen(open_file(path, os.O_RDONLY, at=at), "rb")


def read_file(path: AnyPath) -> bytes:
    """Return the content of a plain file; see ``open_file``."""
    with open_to_read(path) as file:
        try:
            return file.read()
        except MemoryError:  # a sparse file may be longer than any disk
            raise OSError(errno.EFBIG, "it is too long to be read", str(path)) from None


def read_text(path: AnyPath, errors: str = "strict") -> str:
    """Return the content of a plain file of UTF-8; see ``open_file``.

    Raises:
        UnicodeDecodeError: it is no UTF-8.
    """
    return read_file(path).decode("utf-8", errors)


def is_folder(path: AnyPath) -> bool:
    """Return whether a folder lies there; a link to one is none."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def made_folder(root: Path, *parts: str) -> Path:
    """Return a folder below another one, made part by part if need be; ``root`` itself may be reached over links.

    Raises:
        OSError: it cannot be made; ELOOP: a part of it is a link.
    """
    root.mkdir(parents=True, exist_ok=True)
    path = root
    for part in parts:
        path = path / part
        path.mkdir(exist_ok=True)
        if path.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return path
