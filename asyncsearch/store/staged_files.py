"""The files that workers have written for a checkpoint, before its commit: found, read, and those of several apart.

A worker's code may write anything. An error of its own doing is one of the checkpoint; one of the disk may pass.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from types import MappingProxyType

from asyncsearch.errors import CheckpointError, StoreError
from asyncsearch.files.contents import Content, content_of, is_of_the_writer, new_digest
from asyncsearch.files.plain import open_to_read
from asyncsearch.files.trees import Entry, walk
from asyncsearch.ids import CheckpointRef
from asyncsearch.store.manifest import Manifest, Shards, StoredFile

MOST_NAME_BYTES = 1000
"""The longest path in a checkpoint: what every store takes below its own path."""


def survey(folder: Path, known: Mapping[str, StoredFile] = MappingProxyType({})) -> Manifest:
    """Return the manifest of a folder that a worker has written.

    Args:
        folder: the staged folder.
        known: files whose contents are durable and known already, by name.

    Raises:
        CheckpointError: something in the folder is neither a file nor a folder, or cannot be read.
        OSError: the folder cannot be read.
    """
    names, folders = listed(folder)
    files = []
    for name in names:
        if name in known:
            files.append(known[name])
            continue
        with its_own_doing(folder):
            file = open_to_read(folder / name)
        with file:
            files.append(StoredFile(name, os.fstat(file.fileno()).st_size, _digest(file)))
    return Manifest(files, folders)


def listed(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of the files and of the folders in a folder that a worker has written, at any depth, in order.

    Raises:
        CheckpointError: something in the folder is neither a file nor a folder, or can be part of no checkpoint.
        OSError: the disk cannot be read.
    """
    files: list[str] = []
    folders: list[str] = []
    with its_own_doing(folder):
        for entry in walk(folder):
            (folders if entry.is_folder else files).append(_taken(folder, entry))
    return files, folders


def _taken(folder: Path, entry: Entry) -> str:
    """Return the name of something that a worker has written, if it may be part of a checkpoint."""
    name = _text(folder, entry.name)
    if not entry.is_folder and not entry.is_file:
        raise CheckpointError(
            f"{str(folder / name)!r} cannot be part of a checkpoint: it is a link, pipe, socket or device, and what it"
            " leads to may change or vanish later. Let save() write plain files and folders."
        )
    if len(name.encode()) > MOST_NAME_BYTES:
        raise CheckpointError(
            f"A path in {str(folder)!r} has {len(name.encode()):,} bytes, and a checkpoint takes {MOST_NAME_BYTES:,}:"
            f" {name[:60]!r}... Let save() nest fewer folders, or give shorter names."
        )
    if entry.is_file and entry.status.st_blocks * 512 < entry.status.st_size:
        disk = os.fstatvfs(entry.at)
        if entry.status.st_size > disk.f_blocks * disk.f_frsize:
            raise CheckpointError(
                f"{str(folder / name)!r} cannot be part of a checkpoint: it has {entry.status.st_size:,} bytes, nearly"
                " all of them holes, and no disk could take it. Let save() write what is to be kept."
            )
    return name


@contextlib.contextmanager
def its_own_doing(folder: Path) -> Iterator[None]:
    """Tell files of a worker that cannot be read from a disk that does not answer: only the latter may pass.

    Args:
        folder: what the worker wrote.

    Raises:
        CheckpointError: something in the folder cannot be read, however often it is tried.
        OSError: the disk cannot be read, or the folder is gone.
    """
    try:
        yield
    except OSError as error:
        if not is_of_the_writer(error) or not os.path.lexists(folder):
            raise
        what = f"{error.filename!r} in it" if error.filename else "it"
        raise CheckpointError(
            f"{str(folder)!r} cannot be a checkpoint: {what} cannot be read ({error.strerror}). Let save() write plain"
            " files and folders that this user may read, and leave them there."
        ) from error


def _digest(file: BufferedReader) -> str:
    return hashlib.file_digest(file, new_digest).hexdigest()


def _text(folder: Path, name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise CheckpointError(
            f"A file name in {str(folder)!r} is not UTF-8: {os.fsencode(name)!r}. Let save() write names that are text."
        ) from error
    return name


def require_readable(folder: Path, names: Iterable[str]) -> None:
    """Check that the files which a worker has written can be read, else raise as ``its_own_doing`` does."""
    with its_own_doing(folder):
        for name in names:
            open_to_read(folder / name).close()


def require_unchanged(folder: Path, names: Iterable[str], contents: Iterable[Content]) -> None:
    """Check that files which a worker has written are as they were when they were sent.

    Raises:
        CheckpointError: somebody still writes to one of them.
    """
    with its_own_doing(folder):
        for name, content in zip(names, contents, strict=True):
            if content_of(folder / name, content.size_bytes) != content:
                raise CheckpointError(
                    f"{str(folder / name)!r} cannot be part of a checkpoint: it has changed while it was stored. Let"
                    " save() close its files, and nothing write to them later."
                )


def listed_readable(folder: Path) -> tuple[list[str], list[str]]:
    """Return the files and folders of a worker, as ``listed`` does, once all were found readable."""
    names, folders = listed(folder)
    require_readable(folder, names)
    return names, folders


def require_shards(shards: Shards | None, manifest: Manifest, checkpoint: CheckpointRef) -> None:
    """Check that all shards are among the files of a checkpoint that is to be committed.

    Raises:
        StoreError: one is missing.
    """
    missing = set() if shards is None else shards.by_name.keys() - {file.name for file in manifest.files}
    if missing:
        raise StoreError(
            f"Cannot commit checkpoint {checkpoint}: the shards {sorted(missing)} of other workers have vanished. Check"
            " that no other driver opened the study; then commit again."
        )


def require_apart(
    shards: Shards | None, names: Sequence[str], folders: Sequence[str], checkpoint: CheckpointRef
) -> None:
    """Check that no worker has written a file where another one has written a file or a folder.

    Args:
        shards: what other workers have added; None if there are none.
        names: the names of the files of the worker that commits.
        folders: those of its folders.
        checkpoint: for the message.

    Raises:
        CheckpointError: one has.
    """
    taken: set[str] = set()
    above = set(folders)
    for name in () if shards is None else (*names, *(file.name for file in shards.files)):
        if name in taken:
            raise written_twice(checkpoint, name)
        taken.add(name)
        above.update(name[:at] for at, letter in enumerate(name) if letter == "/")
    for name in sorted(taken & above):
        raise written_twice(checkpoint, name)


def gone(checkpoint: CheckpointRef, place: object) -> CheckpointError:
    """Return the error for shards whose place is not there any more."""
    return CheckpointError(
        f"There is no place {str(place)!r} for a shard of checkpoint {checkpoint}: the worker that is to commit it has"
        " given it up, or does not share this folder. All workers must see the same store."
    )


def written_twice(checkpoint: CheckpointRef, name: str) -> CheckpointError:
    """Return the error for a file that two workers have written, or one in the place of the other's folder."""
    return CheckpointError(
        f"Two workers have written {name!r} of checkpoint {checkpoint}. Let save() give each rank's file a name of its"
        " own."
    )
