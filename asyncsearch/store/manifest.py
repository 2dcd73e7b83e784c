"""The manifest of a committed checkpoint: it reveals damage when the checkpoint is loaded, not by a bad result.

Every load compares all files of any size, and the manifest with its own checksum. A store that copies files compares
them while it copies; one that gives out the committed folder itself reads each file once beforehand.
"""

from __future__ import annotations

import errno
import hashlib
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from asyncsearch.errors import CheckpointError
from asyncsearch.files.contents import Content, content_of
from asyncsearch.files.plain import is_folder, open_to_read, read_file
from asyncsearch.files.trees import walk
from asyncsearch.ids import CheckpointRef
from asyncsearch.store.layout import FILES, MANIFEST

_NOT_AS_COMMITTED = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL, errno.ENXIO)
"""Errors of something that is missing, or lies in the place of a file."""
_NOT_READABLE = (errno.EACCES, errno.EPERM)
"""Errors of a file that lies there and may not be read, beside a manifest that may."""
_CHECKSUM = re.compile(rb',"checksum":"([0-9a-f]{32})"}$')


class StoredFile(msgspec.Struct, frozen=True):
    """One file of a checkpoint."""

    name: str
    """Path inside the checkpoint, with ``/``."""
    size_bytes: int
    blake2b: str
    """128 bits, in hexadecimal."""

    def difference(self, found: Content) -> str | None:
        """Return the difference of the found content from the committed one, in words; None if they are equal."""
        if found.size_bytes != self.size_bytes:
            return f"file {self.name!r} has {found.size_bytes} bytes, and had {self.size_bytes}"
        return None if found.blake2b == self.blake2b else f"the content of file {self.name!r} has changed"


class PackedWith(msgspec.Struct, frozen=True):
    """How the state in a checkpoint was trained together with others, so that its bits depend on them."""

    lanes: int
    """How many trainings the last pack had at its beginning, this one included."""
    structure: str
    """The part of its values that decides the structure of its model; those of one structure are alike."""
    until: int
    """Resource up to which it was trained in packs; from there on alone."""


class Sharded(msgspec.Struct, frozen=True):
    """How the workers of a trial divided the state in a checkpoint, of which each wrote its shard."""

    world_size: int
    """Number of workers, each with one shard."""
    strategy: str
    """The strategy that divided it, as ``fsdp2``."""


class Shards(NamedTuple):
    """The files that other workers have added to a checkpoint before its commit."""

    place: str
    """Where they are, as ``Store.shard_place`` gave it; empty if none were added, as all lie in the staged folder."""
    files: tuple[StoredFile, ...]
    sharded: Sharded

    @property
    def by_name(self) -> dict[str, StoredFile]:
        """The files by their names."""
        return {file.name: file for file in self.files}


class Manifest(msgspec.Struct, frozen=True):
    """The contents of a checkpoint."""

    files: list[StoredFile]
    folders: list[str]
    """Includes empty folders: some formats need them."""
    format: int = 1
    checkpoint: str = ""
    """The checkpoint that it describes; empty where its writer did not say."""
    packed_with: PackedWith | UnsetType = UNSET
    """Left out where all of it was trained alone."""
    sharded: Sharded | UnsetType = UNSET
    """Left out where one worker wrote all of it."""

    @property
    def size_bytes(self) -> int:
        """Total size of all files."""
        return sum(file.size_bytes for file in self.files)

    def encode(
        self,
        checkpoint: CheckpointRef | None = None,
        packed_with: PackedWith | None = None,
        shards: Shards | None = None,
    ) -> bytes:
        """Return the manifest, bound to its checkpoint, as JSON that ends with its checksum."""
        bound = self if checkpoint is None else msgspec.structs.replace(self, checkpoint=str(checkpoint))
        if packed_with is not None:
            bound = msgspec.structs.replace(bound, packed_with=packed_with)
        if shards is not None:
            bound = msgspec.structs.replace(bound, sharded=shards.sharded)
        data = msgspec.json.encode(bound)
        return data[:-1] + b',"checksum":"%s"}' % _checksum(data)

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Read a manifest.

        Raises:
            ValueError: ``data`` is not a manifest, or was changed.
        """
        try:
            manifest = _MANIFEST.decode(data)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        checksum = _CHECKSUM.search(data)  # manifests of earlier versions have none
        if checksum is not None and checksum[1] != _checksum(data[: checksum.start()] + b"}"):
            raise ValueError("its checksum differs")
        if manifest.format != 1:
            raise ValueError(f"it has format {manifest.format}, of a newer version of asyncsearch")
        for name in (*(file.name for file in manifest.files), *manifest.folders):
            # A name may come from another machine, and is joined to a local folder.
            if name.startswith("/") or ".." in name.split("/"):
                raise ValueError(f"{name!r} leads out of the checkpoint")
        return manifest


_MANIFEST = msgspec.json.Decoder(Manifest)


def packed_with_in(data: bytes | None) -> PackedWith | None:
    """Return the entry on packs of a manifest; None if it has none, or cannot be read."""
    try:
        found = None if data is None else Manifest.decode(data).packed_with
    except ValueError:
        return None  # whoever loads the checkpoint finds the damage
    return None if isinstance(found, UnsetType) else found


def packed_with_beside(files: Path) -> PackedWith | None:
    """Return the entry on packs of the manifest beside the fetched files of a checkpoint."""
    found = manifest_beside(files)
    return None if found is None or isinstance(found.packed_with, UnsetType) else found.packed_with


def shards_beside(files: Path) -> Shards | None:
    """Return the entry on shards of the manifest beside the fetched files, to commit a copy; None if it has none."""
    found = manifest_beside(files)
    return None if found is None or isinstance(found.sharded, UnsetType) else Shards("", (), found.sharded)


def manifest_beside(files: Path) -> Manifest | None:
    """Return the manifest beside the fetched files of a checkpoint; None if there is none that can be read."""
    if files.name != FILES:
        return None  # of a store of another kind, which keeps it elsewhere
    try:
        return Manifest.decode(read_file(files.parent / MANIFEST))
    except (OSError, ValueError):
        return None


def holds_more(manifest: Manifest, folder: Path) -> bool:
    """Return whether there is more in a folder than its manifest names: that is no part of the checkpoint.

    Raises:
        OSError: it cannot be read.
    """
    known = {*(file.name for file in manifest.files), *manifest.folders}
    return any(entry.name not in known for entry in walk(folder, into=lambda entry: entry.name in known))


def copy_files(manifest: Manifest, files: Path, place: Path, checkpoint: CheckpointRef) -> Path:
    """Return a folder with the files that a manifest names, copied from another one and compared, and it beside them.

    Raises:
        CheckpointError: one of them has become damaged meanwhile.
        OSError: they cannot be copied.
    """
    target = place / FILES
    target.mkdir()
    for name in manifest.folders:
        (target / name).mkdir(parents=True, exist_ok=True)
    for file in manifest.files:
        with open_to_read(files / file.name) as source, open(target / file.name, "xb") as copy:
            shutil.copyfileobj(source, copy)
    check(manifest, target, checkpoint)
    (place / MANIFEST).write_bytes(manifest.encode())
    return target


def check(manifest: Manifest, folder: Path, checkpoint: CheckpointRef, *, are_files_known: bool = False) -> None:
    """Compare a folder with its manifest: the contents of all files, unless these were compared before.

    Raises:
        CheckpointError: something is damaged; the message names it.
        OSError: it cannot be read now.
    """
    for difference in _differences(manifest, folder, checkpoint, () if are_files_known else manifest.files):
        raise damaged(checkpoint, folder, difference)


def wrong_checkpoint(manifest: Manifest, checkpoint: CheckpointRef) -> str | None:
    """Return in words that a manifest lies where that of another checkpoint belongs; None if it is the right one."""
    if manifest.checkpoint in ("", str(checkpoint)):
        return None
    return f"the checkpoint {manifest.checkpoint} was put in its place"


def _differences(
    manifest: Manifest, folder: Path, checkpoint: CheckpointRef, files: Iterable[StoredFile]
) -> Iterator[str]:
    if (wrong := wrong_checkpoint(manifest, checkpoint)) is not None:
        yield wrong
    for name in manifest.folders:
        if not is_folder(folder / name):
            yield f"folder {name!r} is missing"
    for file in files:
        try:
            wrong = file.difference(content_of(folder / file.name, file.size_bytes))
        except OSError as error:
            if error.errno not in _NOT_READABLE:
                require_damage(error)
            wrong = f"file {file.name!r} cannot be read ({error.strerror})"
        if wrong is not None:
            yield wrong


def require_damage(error: OSError) -> None:
    """Check that a file which cannot be read is damaged: what a disk does wrong may pass, and is waited for.

    Raises:
        OSError: the error itself.
    """
    if error.errno not in _NOT_AS_COMMITTED:
        raise error


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


def _checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).hexdigest().encode()
