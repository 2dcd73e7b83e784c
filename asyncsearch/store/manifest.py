"""The manifest of a committed checkpoint: it reveals damage when the checkpoint is loaded, not by a bad result."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path

import msgspec

from asyncsearch.errors import CheckpointError
from asyncsearch.ids import CheckpointRef

SMALL_BYTES = 1 << 20
"""Every fetch compares the contents of files up to this size; of larger ones only the size, unless ``verify``."""


class StoredFile(msgspec.Struct, frozen=True):
    """One file of a checkpoint."""

    name: str
    """Path inside the checkpoint, with ``/``."""
    size_bytes: int
    blake2b: str
    """128 bits, in hexadecimal."""


class Manifest(msgspec.Struct, frozen=True):
    """The contents of a checkpoint."""

    files: list[StoredFile]
    folders: list[str]
    """Includes empty folders: some formats need them."""
    format: int = 1

    @property
    def size_bytes(self) -> int:
        """Total size of all files."""
        return sum(file.size_bytes for file in self.files)

    def encode(self) -> bytes:
        """Return the manifest as JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Read a manifest.

        Raises:
            ValueError: ``data`` is not a manifest.
        """
        manifest = _MANIFEST.decode(data)
        for name in (*(file.name for file in manifest.files), *manifest.folders):
            # A name may come from another machine, and is joined to a local folder.
            if name.startswith("/") or ".." in name.split("/"):
                raise ValueError(f"{name!r} leads out of the checkpoint")
        return manifest


_MANIFEST = msgspec.json.Decoder(Manifest)


def survey(
    folder: Path, sync_file: Callable[[int], None] | None = None, sync_folder: Callable[[Path], None] | None = None
) -> Manifest:
    """Return the manifest of a folder that a worker has written.

    Args:
        folder: the staged folder.
        sync_file: makes one file durable, given its descriptor.
        sync_folder: makes the names in one folder durable.

    Raises:
        CheckpointError: something in the folder is neither a file nor a folder, or cannot be read.
        OSError: the folder cannot be read.
    """
    files: list[StoredFile] = []
    folders: list[str] = []

    def visit(path: Path, inside: str) -> None:
        with os.scandir(path) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            name = _text(path, inside + entry.name)
            if entry.is_dir(follow_symlinks=False):
                folders.append(name)
                visit(path / entry.name, name + "/")
            elif entry.is_file(follow_symlinks=False):
                with open(entry.path, "rb") as file:
                    files.append(StoredFile(name, os.fstat(file.fileno()).st_size, _digest(file)))
                    if sync_file is not None:
                        sync_file(file.fileno())
            else:
                raise CheckpointError(
                    f"{entry.path!r} cannot be part of a checkpoint: it is a link, pipe or device, and what it leads to"
                    " may change or vanish later. Let save() write plain files and folders."
                )
        if sync_folder is not None:
            sync_folder(path)

    visit(folder, "")
    return Manifest(files, folders)


def check(manifest: Manifest, folder: Path, checkpoint: CheckpointRef, everything: bool) -> None:
    """Compare a folder with its manifest: the sizes of all files, and the contents of small files or of all.

    Raises:
        StoreError: a file is damaged; the message names it.
    """
    for file in manifest.files:
        path = folder / file.name
        try:
            size = path.stat().st_size
            if size != file.size_bytes:
                raise damaged(checkpoint, folder, f"file {file.name!r} has {size} bytes, and had {file.size_bytes}")
            if everything or size <= SMALL_BYTES:
                with open(path, "rb") as opened:
                    if _digest(opened) != file.blake2b:
                        raise damaged(checkpoint, folder, f"the content of file {file.name!r} has changed")
        except OSError as error:
            reason = f"file {file.name!r} cannot be read ({error.strerror})"
            raise damaged(checkpoint, folder, reason) from error


def damaged(checkpoint: CheckpointRef, where: object, what: str) -> CheckpointError:
    """Return the error for a checkpoint that differs from its committed state."""
    return CheckpointError(
        f"Checkpoint {checkpoint} at {str(where)!r} is damaged: {what} since it was committed. Delete that checkpoint"
        " and resume the study: what is missing is trained again."
    )


def missing(checkpoint: CheckpointRef, url: str) -> CheckpointError:
    """Return the error for a checkpoint that does not exist."""
    return CheckpointError(
        f"There is no checkpoint {checkpoint} in the store {url!r}: it was never committed, or it was deleted. Resume"
        " the study: what is missing is trained again."
    )


def _digest(file: BufferedReader) -> str:
    return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _text(folder: Path, name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise CheckpointError(
            f"A file name in {str(folder)!r} is not UTF-8: {os.fsencode(name)!r}. Let save() write names that are text."
        ) from error
    return name
