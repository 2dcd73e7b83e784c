"""Making files and names durable: one by one, or a whole disk by one call, where that costs little more."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import re
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from asyncsearch.files.plain import open_to_read, read_file
from asyncsearch.files.trees import walk

SYNCED_WHOLE = frozenset(("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "overlay", "tmpfs"))
"""Kinds of disks that one call makes durable as a whole. A FUSE or CIFS mount answers it without asking its server."""
OTHERS_BYTES = 64 << 20
"""How much that others have written may be made durable along with a folder: more would let it wait for them."""
_LARGE_BYTES = 16 << 20
"""The size of a file from which on its disk is to begin before a sync."""
_START_TO_WRITE = 2
"""Of ``sync_file_range`` of Linux, which then waits for nothing that it has begun."""


def sync_data(descriptor: int) -> None:
    """Make a file's content and size durable. macOS has no fdatasync."""
    getattr(os, "fdatasync", os.fsync)(descriptor)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    with _opened(path) as descriptor:
        try:
            os.fsync(descriptor)
        except OSError as error:
            # Some network mounts cannot sync a folder and keep names durable by themselves.
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise


@contextlib.contextmanager
def writing_ahead(folder: Path) -> Iterator[None]:
    """Let the disk begin to write the large files in a folder while they are read, so that a sync waits for less.

    Nothing is durable by that. Systems without the call, and disks that refuse it, write when the sync comes.
    """
    linux = ctypes.CDLL(None)
    large = _large_files(folder) if hasattr(linux, "sync_file_range") else []

    def write() -> None:
        for path in large:
            with contextlib.suppress(OSError), open_to_read(path) as file:
                whole = (ctypes.c_int64(0), ctypes.c_int64(0))
                linux.sync_file_range(file.fileno(), *whole, ctypes.c_uint(_START_TO_WRITE))

    if not large:  # a thread costs more than their sync waits
        yield
        return
    thread = threading.Thread(target=write, name="asyncsearch-write-ahead", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _large_files(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        found = (entry for entry in walk(folder) if entry.is_file)
        return [folder / entry.name for entry in found if entry.status.st_size >= _LARGE_BYTES]
    return []


def sync_tree(
    folder: Path, files: Iterable[str], folders: Iterable[str], size_bytes: int, parents: Iterable[Path] = ()
) -> None:
    """Make a folder and all that was written in it durable: by one call for its disk, where that costs little more.

    Args:
        folder: the folder. That its own name is durable, too, is certain only after ``sync_folder`` of its parent.
        files: the names of the files in it, at any depth.
        folders: those of the folders in it.
        size_bytes: how much the files have.
        parents: folders of the same disk, the names in which are to be durable too.
    """
    if is_synced_whole(_kind_of(os.stat(folder).st_dev), _kernel(), _unwritten_bytes() - size_bytes):
        sync_disk(folder)
        return
    for name in files:
        with open_to_read(folder / name) as file:
            os.fsync(file.fileno())
    for path in (*(folder / name for name in sorted(folders, reverse=True)), folder, *parents):
        sync_folder(path)


def is_synced_whole(kind: str, kernel: tuple[int, ...], others_bytes: int) -> bool:
    """Return whether one call for a whole disk is certain to make it durable, and waits little for others. Pure.

    Args:
        kind: of its file system, as Linux names it.
        kernel: version of Linux; before 5.8 the call hides errors of the disk.
        others_bytes: how much this machine has not written to its disks yet, beyond what is to be made durable.
    """
    return kind in SYNCED_WHOLE and kernel >= (5, 8) and others_bytes <= OTHERS_BYTES


def sync_disk(folder: Path) -> None:
    """Make all that was written on the disk of a folder durable, by one call of Linux."""
    with _opened(folder) as descriptor:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(folder))


@functools.lru_cache(maxsize=64)
def _kind_of(device: int) -> str:
    """Return the kind of the file system with a device number; empty where Linux does not say."""
    with contextlib.suppress(OSError, ValueError):
        number = f"{os.major(device)}:{os.minor(device)}".encode()
        for line in read_file("/proc/self/mountinfo").splitlines():
            left, _, right = line.partition(b" - ")
            if left.split()[2] == number:
                return right.split()[0].decode()
    return ""


@functools.cache
def _kernel() -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", os.uname().release) if hasattr(os, "uname") else None
    return (int(found[1]), int(found[2])) if found else (0,)


def _unwritten_bytes() -> int:
    """Return how much this machine has in memory that is not on its disks yet."""
    try:
        lines = read_file("/proc/meminfo").splitlines()
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith((b"Dirty:", b"Writeback:")))
    except (OSError, ValueError, IndexError):
        return 1 << 62  # unknown: too much
