"""What a manifest knows of a file: its length and a checksum; and whether files are still as their manifest says."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path
from typing import NamedTuple

from asyncsearch.files.plain import AnyPath, open_to_read, read_file

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
