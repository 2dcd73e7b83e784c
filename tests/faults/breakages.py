"""What happens to a store in the middle of a run, and how it is mended. Each acts on a folder with the store in it.

The driver itself breaks its store, so that the moment is exact: no clock is involved.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_FILLER = "filler"
DISK_BYTES = 8 << 20
"""Size of the disk that is filled."""


def in_turn(change: Callable[[Path], None]) -> Callable[[Path], None]:
    """Let no process mend what another one is still breaking: the rest would stay broken."""

    @functools.wraps(change)
    def changed(folder: Path) -> None:
        with open(folder / "breaking", "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            change(folder)

    return changed


@in_turn
def immutable(folder: Path) -> None:
    """Let nothing in the store be written, as on a disk that the kernel has mounted read-only after an error."""
    _run("chattr", "-R", "+i", folder / "study")


@in_turn
def immutable_checkpoints(folder: Path) -> None:
    """Let no checkpoint be written; the journal can be."""
    for name in ("checkpoints", "tmp"):
        _run("chattr", "-R", "+i", folder / "study" / name)


@in_turn
def mutable(folder: Path) -> None:
    _run("chattr", "-R", "-i", folder / "study")


@in_turn
def full(folder: Path) -> None:
    """Fill the disk of the store, to the last byte."""
    with open(folder / "study" / _FILLER, "wb", buffering=0) as file:
        size = 1 << 20
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2


@in_turn
def freed(folder: Path) -> None:
    (folder / "study" / _FILLER).unlink(missing_ok=True)


def limited(folder: Path) -> None:
    """Let this process write no file further than the journal is now, as ``ulimit -f`` does."""
    size = max(path.stat().st_size for path in (folder / "study/journal").iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def unlimited(folder: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def lock_removed(folder: Path) -> None:
    (folder / "study/lock").unlink()


def lock_replaced(folder: Path) -> None:
    _copy_over(folder / "study/lock")


def segment_removed(folder: Path) -> None:
    _segment(folder).unlink()


def segment_replaced(folder: Path) -> None:
    _copy_over(_segment(folder))


def journal_removed(folder: Path) -> None:
    shutil.rmtree(folder / "study/journal")


def journal_replaced(folder: Path) -> None:
    _copy_over(folder / "study/journal")


def store_removed(folder: Path) -> None:
    _rmtree(folder / "study")


def store_replaced(folder: Path) -> None:
    _copy_over(folder / "study")


def store_moved(folder: Path) -> None:
    (folder / "study").rename(folder / "moved")


def store_moved_back(folder: Path) -> None:
    _rmtree(folder / "study")
    (folder / "moved").rename(folder / "study")


def store_covered(folder: Path) -> None:
    """Mount an empty disk over the store."""
    _run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", folder / "study")


def store_uncovered(folder: Path) -> None:
    _run("umount", folder / "study")


def nothing(folder: Path) -> None:
    """Leave the store as it is."""


def second_driver(folder: Path) -> None:
    """Remove the lock, and let a second driver come and search to the end."""
    from tests.faults.tools import script

    lock_removed(folder)
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(script({"folder": str(folder)}), stdout=output, stderr=output, check=False)
        output.seek(0)
        (folder / "second").write_bytes(b"%d\n" % done.returncode + output.read())


BREAKAGES: dict[str, Callable[[Path], None]] = {
    action.__name__: action
    for action in (
        immutable,
        immutable_checkpoints,
        full,
        limited,
        lock_removed,
        lock_replaced,
        segment_removed,
        segment_replaced,
        journal_removed,
        journal_replaced,
        store_removed,
        store_replaced,
        store_moved,
        store_covered,
        second_driver,
    )
}
MENDINGS: dict[str, Callable[[Path], None]] = {
    "immutable": mutable,
    "immutable_checkpoints": mutable,
    "full": freed,
    "limited": unlimited,
    "store_moved": store_moved_back,
    "store_covered": store_uncovered,
}


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Let the store lie on a small disk of its own."""
    (folder / "study").mkdir()
    store_covered(folder)
    try:
        yield
    finally:
        store_uncovered(folder)


@functools.cache
def why_not(name: str) -> str:
    """Return the reason why a breakage cannot be tried here. Empty if it can."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "study").mkdir()
        try:
            if name.startswith("immutable"):
                _run("chattr", "+i", folder / "study")
                _run("chattr", "-i", folder / "study")
            elif name in ("full", "store_covered"):
                store_covered(folder)
                store_uncovered(folder)
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", "") or str(error)
            return f"{name} needs rights that this process lacks: {said.strip()}"
    return ""


def _segment(folder: Path) -> Path:
    return max((folder / "study/journal").glob("*.jsonl"))


def _copy_over(path: Path) -> None:
    """Put a copy in the place of a file or folder, as a restored backup or a synchronised folder does.

    The two change places at once, so that a worker that writes meanwhile never finds the place empty and fills it.
    """
    copy = path.with_name(f"{path.name}-copy")
    if path.is_dir():
        _copy_living(path, copy)
        _exchange(copy, path)
        _rmtree(copy)
    else:
        shutil.copy2(path, copy)
        os.replace(copy, path)


def _copy_living(path: Path, copy: Path) -> None:
    """Copy a folder without the temporary files that workers remove meanwhile."""
    try:
        shutil.copytree(path, copy)
    except shutil.Error as error:
        left_out = [why for _, _, why in error.args[0] if f"[Errno {errno.ENOENT}]" not in why]
        if left_out:
            raise


def _exchange(one: Path, other: Path) -> None:
    """Let two folders change places in one step (``renameat2``, of Linux and glibc 2.28)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        raise OSError(ctypes.get_errno(), f"{one} and {other} cannot change places")


def _rmtree(path: Path) -> None:
    """Remove a folder into which workers may still write."""
    for _ in range(100):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
    raise OSError(f"{path} cannot be removed")


def _run(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
