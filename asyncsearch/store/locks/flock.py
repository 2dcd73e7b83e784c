"""A lock that the operating system releases when its holder dies, even by ``kill -9``.

On NFS it works between machines when the share is mounted with locks, the default (not with ``nolock``).
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from asyncsearch.errors import StoreError, StoreLockedError
from asyncsearch.files import UNDECODABLE
from asyncsearch.files.plain import open_file, read_file
from asyncsearch.store.disk import FileIdentity, explained, is_running, write_all

_SHOWN = "driver.json"
"""Beside the lock: its holder, for those who may only read the store."""
_held: dict[int, FileIdentity] = {}


class Holder(msgspec.Struct, frozen=True):
    """The holder of a lock, for messages."""

    host: str
    pid: int
    since: str

    @classmethod
    def here(cls) -> Holder:
        """Return this process."""
        return cls(socket.gethostname(), os.getpid(), time.strftime("%Y-%m-%d %H:%M:%S %z"))

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


_HOLDER = msgspec.json.Decoder(Holder)


@contextlib.contextmanager
def hold(path: Path) -> Iterator[None]:
    """Hold the lock file.

    Raises:
        StoreLockedError: another process, or this one, already holds it.
        StoreError: the file cannot be locked at all.
    """
    try:
        import fcntl
    except ImportError as error:
        raise StoreError(f"Cannot lock {str(path)!r}: this system has no POSIX locks. Use one that has.") from error

    with explained("lock the store", path):
        descriptor = open_file(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _close_to_readers(descriptor, path.parent)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            here = msgspec.json.encode(Holder.here()) + b"\n"
            write_all(descriptor, here)
            _tell(path, here)
        except BaseException as error:
            holder = _read_holder(descriptor)
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                raise StoreLockedError(
                    f"Another driver has the study at {str(path.parent)!r} open: {holder}. One study has one driver:"
                    " wait for it or stop it, or give this study another store."
                ) from None
            if isinstance(error, OSError) and error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise StoreError(
                    f"Cannot lock {str(path)!r}: this mount has no locks, and without one two drivers could write the"
                    " same study. Mount it with locks (NFS: without 'nolock'), or choose another store."
                ) from error
            raise
    _held[descriptor] = FileIdentity.of(path, descriptor)
    try:
        yield
    finally:
        # A forked child that leaves the block has no lock, and its descriptor may belong to another file by now.
        if descriptor in _held:
            del _held[descriptor]
            try:
                _forget_holder(descriptor)
                with contextlib.suppress(OSError):
                    path.with_name(_SHOWN).unlink()
            finally:
                os.close(descriptor)


def held(path: Path) -> FileIdentity | None:
    """Return the lock file that this process holds at a path, or None."""
    return next((identity for identity in _held.values() if identity.path == str(path)), None)


def require_in_place(lock: FileIdentity) -> None:
    """Check that a lock that is held still locks others out.

    Raises:
        StoreLockedError: its file was removed or replaced, so that another driver can take the lock.
    """
    if not lock.is_in_place():
        raise StoreLockedError(
            f"The lock {lock.path!r} was removed, moved or replaced while process {os.getpid()} held it, so"
            " another driver may have opened the study. Nothing more is written from here, and everything acknowledged"
            f" is kept. Once no driver runs, go on with it: Study.resume({os.path.dirname(lock.path)!r})."
        )


def is_held(path: Path) -> bool:
    """Return whether the file names a holder that seems to be alive. Takes no lock itself."""
    try:
        holder = _HOLDER.decode(_holder_bytes(path))
    except (OSError, *UNDECODABLE):
        return False
    return holder.host != socket.gethostname() or is_running(holder.pid)


def _holder_bytes(path: Path) -> bytes:
    try:
        return read_file(path)
    except PermissionError:  # whoever may only read the store
        return read_file(path.with_name(_SHOWN))


def _tell(path: Path, holder: bytes) -> None:
    """Write for those who may only read the store who holds its lock."""
    with contextlib.suppress(OSError):  # it is only shown
        descriptor = open_file(path.with_name(_SHOWN), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            write_all(descriptor, holder)
        finally:
            os.close(descriptor)


def _close_to_readers(descriptor: int, folder: Path) -> None:
    """Let only those open the lock who may write in its folder: the system lets everyone lock who can open a file."""
    status, above = os.fstat(descriptor), folder.stat()
    rights = 0o600 | (0o060 if above.st_mode & 0o020 else 0) | (0o006 if above.st_mode & 0o002 else 0)
    if status.st_uid != os.geteuid():
        return
    with contextlib.suppress(OSError):
        if rights & 0o060 and status.st_gid != above.st_gid:
            os.fchown(descriptor, -1, above.st_gid)
        if stat.S_IMODE(status.st_mode) != rights:
            os.fchmod(descriptor, rights)


def _forget_holder(descriptor: int) -> None:
    # On a disk that can no longer be written this fails, and must not hide the error that ended the driver.
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)


def _read_holder(descriptor: int) -> Holder | str:
    try:
        return _HOLDER.decode(os.pread(descriptor, 4096, 0))
    except (OSError, *UNDECODABLE):
        return "a process that has not yet written its name"


def _drop_inherited() -> None:
    # A forked child shares the lock, and would keep holding it after the driver was killed.
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_inherited)
