"""The contents of files as a manifest knows them, by length and checksum; and whether files are still as it says."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from asyncsearch.files.plain import AnyPath, open_to_read, read_file
from asyncsearch.files.trees import walk

MANIFEST = "manifest.json"
"""Beside the folder of a checkpoint's files."""

_OF_THE_WRITER = frozenset(
    getattr(errno, name)
    for name in ("EACCES", "EPERM", "ENAMETOOLONG", "ELOOP", "ENOENT", "ENOTDIR", "EISDIR", "ENXIO", "EINVAL")
)


class Content(NamedTuple):
    """The content of a file, as a manifest knows it."""

    size_bytes: int
    blake2b: str
    """128 bits, in hexadecimal."""


def new_digest() -> hashlib.blake2b:
    """Return the hash of the contents of files."""
    return hashlib.blake2b(digest_size=16)


class ContentCounter:
    """The content of a file that is copied block by block."""

    def __init__(self) -> None:
        self._size_bytes, self._digest = 0, new_digest()

    def add(self, block: bytes) -> bytes:
        """Count a block, and return it."""
        self._size_bytes += len(block)
        self._digest.update(block)
        return block

    @property
    def content(self) -> Content:
        """The content of all blocks so far."""
        return Content(self._size_bytes, self._digest.hexdigest())


def content_of(path: AnyPath, size_bytes: int | None = None) -> Content:
    """Return the content of a plain file.

    Args:
        path: of the file.
        size_bytes: the size that it should have; one of another size is not read, since holes may make it endless.

    Raises:
        OSError: it cannot be read, or it is something else, such as a link.
    """
    with open_to_read(path) as file:
        size = os.fstat(file.fileno()).st_size
        is_other = size_bytes is not None and size != size_bytes
        return Content(size, "" if is_other else hashlib.file_digest(file, new_digest).hexdigest())


def is_of_the_writer(error: OSError) -> bool:
    """Return whether a file that cannot be read is its writer's doing, and not that of the disk, which may pass."""
    return error.errno in _OF_THE_WRITER


def is_changed(files: Path) -> bool:
    """Return whether the files of a checkpoint differ from the manifest beside their folder, or cannot be read.

    Where no manifest can be read, nothing is known, and nothing counts as changed.
    """
    try:
        found = json.loads(read_file(files.parent / MANIFEST))
        known = [(str(file["name"]), Content(file["size_bytes"], file["blake2b"])) for file in found["files"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
    try:
        return any(content_of(files / name, content.size_bytes) != content for name, content in known)
    except OSError:
        return True


_TICK_NS = 20_000_000
"""A file system's clock may stand still for so long: two writes within it can leave the same times."""

Stamps = Mapping[str, tuple[int, int, int, int]]
"""Of each file in a folder, by name: its inode, its size and when it, or what is known of it, was changed last."""


def stamps_of(folder: AnyPath) -> Stamps | None:
    """Return which files a folder holds and when they were written; None if it cannot be read."""
    with contextlib.suppress(OSError):
        found = [(entry.name, entry.status) for entry in walk(folder) if not entry.is_folder]
        return {name: (one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for name, one in found}
    return None


class UnchangedFolders:
    """The folders whose files this process has read last, and how they were then. Any thread may call any method."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._known: dict[str, Stamps] = {}

    def note(self, folder: AnyPath, seen: Stamps | None, now_ns: int | None = None) -> None:
        """Note that the files of a folder are as they should be.

        Args:
            folder: the folder.
            seen: how they were before they were read.
            now_ns: the present time; one that was written a moment ago may be written again at the same time.
        """
        now_ns = time.time_ns() if now_ns is None else now_ns
        if seen is not None and all(now_ns - max(times) > _TICK_NS for _, _, *times in seen.values()):
            self._known[os.fspath(folder)] = seen
        for old in list(self._known)[: -self._most]:
            self._known.pop(old, None)

    def is_unchanged(self, folder: AnyPath) -> bool:
        """Return whether nobody has written to the files of a folder since they were noted."""
        seen = self._known.get(os.fspath(folder))
        return seen is not None and stamps_of(folder) == seen
