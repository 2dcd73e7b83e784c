"""Temporary folders that are removed, however their process ends.

    <temporary folder>/asyncsearch-<user id>/<host>.<boot>.<random>/lock
                                                                    stage-<random>/ ...

All folders of a process are in one root, and so on one disk. The process holds a lock on a file in it, which the
operating system releases when the process dies, even by ``kill -9``: a process that makes its first root on a machine
removes the unlocked roots. Roots of other machines on a shared disk are left alone, since locks may not work there.

Without such locks, or where others may write in this user's folder, the root is directly in the temporary folder, and
remains there if its process is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from asyncsearch.files.plain import open_file, read_file
from asyncsearch.files.trees import remove_tree

_LOCK = "lock"
_TRIES = 16


class _Root:
    """A folder of this process, and the descriptor that locks it; None if it is not locked."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path, self.descriptor = path, descriptor

    def is_here(self) -> bool:
        """Return whether the root still exists, and touch it, so that cleaners of old files leave it alone."""
        if self.descriptor is None:
            return self.path.is_dir()
        os.utime(self.descriptor)
        return (self.path / _LOCK).exists()

    def is_empty(self) -> bool:
        """Return whether the root contains nothing except its lock."""
        try:
            return set(os.listdir(self.path)) <= {_LOCK}
        except FileNotFoundError:
            return True
        except OSError:  # one that cannot be looked at is not removed, and hides no error of who tidies up
            return False

    def release(self) -> None:
        """Release the lock."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


class _Roots:
    """The roots of this process, by the temporary folder that contains them. Only tests have more than one."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._roots: dict[str, _Root] = {}
        self._swept: set[str] = set()

    def make(self, kind: str) -> Path:
        place = tempfile.gettempdir()
        with self._guard:
            root = self._roots.get(place)
            if root is None or not root.is_here():
                if root is not None:
                    root.release()
                root = self._roots[place] = _new_root(place)
                self._sweep_once(root.path.parent)
            return Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=root.path))

    def tidy(self) -> None:
        with self._guard:
            for place, root in list(self._roots.items()):
                if root.is_empty():
                    self._remove(place)

    def close(self) -> None:
        """Remove all roots with their contents."""
        with self._guard:
            for place in list(self._roots):
                self._remove(place)

    def drop(self) -> None:
        """Forget all roots in a forked child, which shares the locks and would hold them after its parent's death."""
        for root in self._roots.values():
            root.release()
        self._guard = threading.Lock()  # another thread of the parent may hold the old one
        self._roots.clear()
        self._swept.clear()

    def _remove(self, place: str) -> None:
        root = self._roots.pop(place)
        _clear(root.path)
        root.release()

    def _sweep_once(self, base: Path) -> None:
        if base.name == _base_name() and str(base) not in self._swept:
            self._swept.add(str(base))
            # In a thread, since it may take long, and the caller may have to send heartbeats.
            with contextlib.suppress(RuntimeError):  # no further thread can be started
                threading.Thread(target=sweep, args=(base,), name="asyncsearch-scratch", daemon=True).start()


_mine = _Roots()


def make_folder(kind: str) -> Path:
    """Return a new, empty folder on this machine, which is removed when this process ends, if not before.

    Args:
        kind: its purpose, the first word of its name.

    Raises:
        OSError: it cannot be made.
    """
    return _mine.make(kind)


def sweep_machine() -> None:
    """Remove what killed processes have left on this machine, as the first ``make_folder`` of a process does."""
    sweep(Path(tempfile.gettempdir()) / _base_name())


def remove_folder(folder: Path) -> None:
    """Remove a folder that ``make_folder`` returned, or one beside it; no error if it is gone."""
    remove_tree(folder)
    _mine.tidy()


@contextlib.contextmanager
def temporary_folder(kind: str) -> Iterator[Path]:
    """Provide a folder as ``make_folder`` does, valid inside the ``with``.

    Raises:
        OSError: it cannot be made.
    """
    folder = make_folder(kind)
    try:
        yield folder
    finally:
        remove_folder(folder)


def sweep(base: Path) -> None:
    """Remove the roots of this machine's dead processes; a root that cannot be removed stays."""
    host, boot = _machine()
    with contextlib.suppress(OSError):
        for path in list(base.iterdir()):
            its_host, _, rest = path.name.partition(".")
            # Containers that share the folder have their own host names; a restarted machine keeps its host name.
            if its_host == host or (boot and rest.partition(".")[0] == boot):
                with contextlib.suppress(Exception):  # the leftovers behind it are swept all the same
                    _remove_if_dead(path)


def _remove_if_dead(path: Path) -> None:
    descriptor = _hold(path / _LOCK)
    if descriptor is None:
        path.rmdir()  # a root without a lock file; this fails if it is not empty, as the root of a living process
        return
    try:
        _clear(path)
    finally:
        os.close(descriptor)


def _clear(path: Path) -> None:
    """Remove a root, its lock last, so that an interrupted removal can be repeated."""
    with contextlib.suppress(OSError):
        for name in os.listdir(path):
            if name != _LOCK:
                remove_tree(path / name)
        if set(os.listdir(path)) <= {_LOCK}:
            (path / _LOCK).unlink(missing_ok=True)
            path.rmdir()


def _new_root(place: str) -> _Root:
    base = Path(place) / _base_name()
    with contextlib.suppress(OSError):
        if _is_private(base):
            for _ in range(_TRIES):
                path = Path(tempfile.mkdtemp(prefix="{}.{}.".format(*_machine()), dir=base))
                try:
                    descriptor = _hold(path / _LOCK, os.O_CREAT | os.O_EXCL)
                except OSError:
                    remove_tree(path)  # a disk without locks
                    raise
                if descriptor is not None:
                    return _Root(path, descriptor)
                # Another process took it for the root of a dead process, before it was locked.
    return _Root(Path(tempfile.mkdtemp(prefix="asyncsearch-", dir=place)), None)


def _hold(path: Path, flags: int = 0) -> int | None:
    """Return a descriptor that locks a file; None if another one locks it, or the file is gone."""
    import fcntl

    try:
        descriptor = open_file(path, os.O_RDWR | flags, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A lock on a file that was removed meanwhile locks nobody out of the one that lies there now.
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _is_private(base: Path) -> bool:
    """Make a folder if there is none, and return whether it belongs to this user and is closed to all others."""
    if not hasattr(os, "getuid"):
        return False  # Windows
    base.mkdir(mode=0o700, exist_ok=True)
    found = base.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _base_name() -> str:
    return f"asyncsearch-{os.getuid()}" if hasattr(os, "getuid") else "asyncsearch"


def _machine() -> tuple[str, str]:
    """Return this machine's name, and an id of its last boot, empty if unknown."""
    host = socket.gethostname().replace(".", "-").replace("/", "-")
    try:
        boot = read_file("/proc/sys/kernel/random/boot_id")
    except OSError:
        return host, ""
    return host, boot[:8].decode()


atexit.register(_mine.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mine.drop)
