"""The checkpoints of a store that copies files to and from this machine.

A checkpoint is uploaded under a name that no other attempt uses, its listing is checked, and its manifest is written
last: the manifest is the commit. A folder without one is garbage, for ``sweep``. The highest version counts.

Staged and fetched checkpoints are in this machine's temporary folder (``TMPDIR``): see asyncsearch.store.scratch.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from asyncsearch.errors import StoreError
from asyncsearch.files.contents import Content, stamps_of
from asyncsearch.files.plain import is_folder
from asyncsearch.files.trees import remove_tree
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.store import layout, scratch
from asyncsearch.store.disk import explained
from asyncsearch.store.far.files import FarFolder
from asyncsearch.store.manifest import (
    Manifest,
    PackedWith,
    Shards,
    StoredFile,
    damaged,
    missing,
    wrong_checkpoint,
)
from asyncsearch.store.staged_files import listed_readable, require_apart, require_readable, require_unchanged

_log = logging.getLogger(__name__)
_STAGE = "stage"
_NOT_COMMITTED = "it has no manifest"
_WHOLE_BYTES = 32 << 10
"""The longest manifest that is sent in one packet, so that it is there as a whole or not at all, whoever is killed."""
_SWEEPS = 8
"""Nodes that are looked at at a time: ten thousand one after the other take a minute."""
_NUMBERED = "a"
"""The token of versions that have the number of their attempt."""


class FarCheckpoints(FarFolder):
    """The part of a store that stages, commits, finds and deletes checkpoints on another machine."""

    def stage(self, checkpoint: CheckpointRef) -> Path:
        layout.node_folder(checkpoint)
        with explained(f"stage checkpoint {checkpoint}", tempfile.gettempdir()):
            staged = scratch.make_folder(_STAGE) / layout.FILES
            staged.mkdir()
        return staged

    def commit(
        self,
        checkpoint: CheckpointRef,
        staged: Path,
        packed_with: PackedWith | None = None,
        shards: Shards | None = None,
    ) -> int:
        older = self._versions(checkpoint)
        version = _own_version(checkpoint, older, shards)
        size_bytes = self._commit(checkpoint, version, staged, packed_with, shards)
        for other in older:
            if other != version:  # an attempt whose answer was lost may have committed this one
                self._remove_version(checkpoint, other)
        return size_bytes

    def commit_of(
        self,
        attempt: int,
        checkpoint: CheckpointRef,
        staged: Path,
        packed_with: PackedWith | None = None,
        shards: Shards | None = None,
    ) -> int:
        if shards is not None or self._has_own_rules:
            return super().commit_of(attempt, checkpoint, staged, packed_with, shards)
        return self._commit(checkpoint, _version_of(attempt, checkpoint), staged, packed_with, None)

    @property
    def _has_own_rules(self) -> bool:
        """Whether this is a user's subclass with a method of its own for what is done here in fewer calls."""
        own, here = type(self), FarCheckpoints
        return own.commit is not here.commit or own.delete is not here.delete or own.sweep is not here.sweep

    def _commit(
        self,
        checkpoint: CheckpointRef,
        version: layout.Version,
        staged: Path,
        packed_with: PackedWith | None,
        shards: Shards | None,
    ) -> int:
        """Make a staged folder a version of a checkpoint."""
        if not _is_staged(staged):
            raise StoreError(
                f"Cannot commit checkpoint {checkpoint} from {str(staged)!r}: it is not, or no longer, a folder that"
                " stage() gave on this machine. A staged folder is committed once; stage and write it again."
            )
        with explained(f"read the staged checkpoint {checkpoint}", staged):
            names, folders = listed_readable(staged)
        require_apart(shards, names, folders, checkpoint)
        folder = f"{layout.node_folder(checkpoint)}/{version}"
        seen = stamps_of(staged)
        contents = self._sent(names, staged, f"{folder}/{layout.FILES}")
        files = [StoredFile(name, *content) for name, content in zip(names, contents, strict=True)]
        if shards is not None:
            files = list(({file.name: file for file in files} | shards.by_name).values())
        manifest = Manifest(files, folders)
        if stamps_of(staged) != seen:
            require_unchanged(staged, names, contents)
        if not self._have_arrived(manifest, f"{folder}/{layout.FILES}", shards):
            require_unchanged(staged, names, contents)
            raise StoreError(
                f"Cannot commit checkpoint {checkpoint} to {self._remote.shown!r}: files are missing, or have other"
                " sizes than were sent. Check the connection, and that no other driver opened the study; then commit"
                " again."
            )
        # The commit: what fails before it leaves garbage, never half a checkpoint.
        encoded = manifest.encode(checkpoint, packed_with, shards)
        write = self._remote.write_in_place if len(encoded) <= _WHOLE_BYTES else self._remote.write
        try:
            write(f"{folder}/{layout.MANIFEST}", encoded)
        except StoreError:
            # A rival that saw the manifest before its writer had the answer has replaced this version by its own.
            if not any(other.number > version.number for other in self._versions(checkpoint)):
                raise
        self.discard(staged)
        return manifest.size_bytes

    def _have_arrived(self, manifest: Manifest, folder: str, shards: Shards | None) -> bool:
        """Return whether all files of a manifest are there, with their sizes. What is more is no part of it."""
        if shards is None and self._remote.confirms_writes:
            return True
        arrived = self._remote.find(folder).items()
        sent = {(file.name, file.size_bytes) for file in manifest.files}
        return sent <= {(name, info.size_bytes) for name, info in arrived}

    def shard_place(self, checkpoint: CheckpointRef, staged: Path) -> str:
        return str(_next_version(checkpoint, self._versions(checkpoint)))

    def add_shard(self, checkpoint: CheckpointRef, place: str, staged: Path) -> Sequence[StoredFile]:
        folder = f"{layout.node_folder(checkpoint)}/{layout.check_version(place, checkpoint.resource)}"
        with explained(f"read the staged shard of checkpoint {checkpoint}", staged):
            names, _ = listed_readable(staged)
        contents = self._sent(names, staged, f"{folder}/{layout.FILES}")
        self.discard(staged)
        return [StoredFile(name, *content) for name, content in zip(names, contents, strict=True)]

    def discard_shards(self, checkpoint: CheckpointRef, place: str) -> None:
        self.remove_tree(f"{layout.node_folder(checkpoint)}/{layout.check_version(place, checkpoint.resource)}")

    def discard(self, staged: Path) -> None:
        if _is_staged(staged):
            scratch.remove_folder(staged.parent)

    @contextlib.contextmanager
    def fetch(self, checkpoint: CheckpointRef) -> Iterator[Path]:
        with contextlib.ExitStack() as stack:
            with explained(f"fetch checkpoint {checkpoint}", tempfile.gettempdir()):
                folder = stack.enter_context(scratch.temporary_folder("fetch"))
                files = self._download(checkpoint, folder)
            yield files

    def delete(self, checkpoint: CheckpointRef) -> None:
        for version in self._versions(checkpoint):  # the highest is removed last: an older one must not reappear
            self._remove_version(checkpoint, version)

    def delete_of(self, attempt: int, checkpoint: CheckpointRef) -> None:
        if self._has_own_rules:
            super().delete_of(attempt, checkpoint)
            return
        self._remove_version(checkpoint, _version_of(attempt, checkpoint))

    def checkpoints(self, node: NodeKey | None = None) -> Sequence[CheckpointRef]:
        found: set[CheckpointRef] = set()
        for name, versions in self._committed("checkpoints" if node is None else f"checkpoints/{node}").items():
            found |= layout.references(name, versions)
        return sorted(found, key=lambda checkpoint: (checkpoint.node, checkpoint.resource))

    def sweep(self) -> None:
        for name in filter(layout.is_temporary, self._remote.list("tmp")):
            self._sweep_away(f"tmp/{name}")
        attempts = {tuple(name.split("/")[:2]) for name in self._remote.find("checkpoints") if name.count("/") > 1}
        committed = self._committed("checkpoints")
        for node, attempt in sorted(attempts):
            if not layout.is_node(node):
                continue
            versions = committed.get(node, [])
            for version in layout.parse_versions([attempt]):
                rivals = [other for other in versions if other.resource == version.resource]
                if version not in rivals or version != rivals[-1]:
                    self._sweep_away(f"checkpoints/{node}/{version}")

    def sweep_except(self, needed: Container[CheckpointRef], *, settled: Container[NodeKey] = ()) -> None:
        """Sweep as ``sweep`` does, and delete the checkpoints that are not needed: by one call for each node."""
        if self._has_own_rules:
            super().sweep_except(needed, settled=settled)
            return
        for name in filter(layout.is_temporary, self._remote.list("tmp")):
            self._sweep_away(f"tmp/{name}")
        names = filter(layout.is_node, self._remote.list("checkpoints"))
        nodes = [name for name in names if NodeKey(name) not in settled]
        with ThreadPoolExecutor(_SWEEPS, "asyncsearch-sweep") as pool:
            list(pool.map(lambda node: self._sweep_node(node, needed), nodes))

    def _sweep_node(self, node: str, needed: Container[CheckpointRef]) -> None:
        names = self._remote.list(f"checkpoints/{node}")
        versions = layout.parse_versions(names)
        kept = {one.resource for one in versions if CheckpointRef(NodeKey(node), one.resource) in needed}
        if not kept and len(versions) == len(names):
            self._sweep_away(f"checkpoints/{node}")
            return
        for resource in {one.resource for one in versions}:
            rivals: Sequence[layout.Version] = [one for one in versions if one.resource == resource]
            if resource in kept:
                rivals = self._all_but_newest(node, rivals)
            for version in rivals:
                self._sweep_away(f"checkpoints/{node}/{version}")

    def _all_but_newest(self, node: str, rivals: Sequence[layout.Version]) -> Sequence[layout.Version]:
        """Return the versions of a checkpoint without the newest that is committed; the only one is not looked at."""
        if len(rivals) < 2:
            return ()
        committed = [one for one in rivals if self._remote.is_written(f"checkpoints/{node}/{one}/{layout.MANIFEST}")]
        return [one for one in rivals if one not in committed[-1:]] if committed else ()

    def _sweep_away(self, name: str) -> None:
        """Remove a leftover; one that cannot be removed stays, and what comes behind it is swept all the same."""
        try:
            self._remote.remove(name) if name.startswith("tmp/") else self.remove_tree(name)
        except StoreError as error:
            try:
                self._remote.remove_tree(name)
            except StoreError:
                _log.warning("%s/%s is a leftover and cannot be removed: %s", self._remote.shown, name, error)

    def _sent(self, names: Sequence[str], staged: Path, folder: str) -> Sequence[Content]:
        """Copy files from a local folder to one here, and tell what is wrong with them from what is with the store."""
        try:
            return self._upload(names, staged, folder)
        except StoreError:
            if is_folder(staged):
                require_readable(staged, names)
            raise

    def _upload(self, names: Sequence[str], staged: Path, folder: str) -> Sequence[Content]:
        """Copy files from a local folder to one here, and return what was copied of each."""
        return [self._remote.upload(staged / name, f"{folder}/{name}") for name in names]

    def _committed(self, folder: str) -> dict[str, Sequence[layout.Version]]:
        """Return the committed versions below a folder by node, each in order."""
        found = defaultdict(list)
        for name, info in self._remote.find(folder).items():
            if not info.size_bytes and self._remote.shows_unfinished:
                continue
            node, version, *rest = f"{folder}/{name}".split("/")[1:]
            if rest == [layout.MANIFEST] and layout.is_node(node):
                found[node].append(version)
        return {node: layout.parse_versions(names) for node, names in found.items()}

    def _versions(self, checkpoint: CheckpointRef) -> Sequence[layout.Version]:
        """Return the committed versions of a checkpoint, in order."""
        node = layout.node_folder(checkpoint)
        attempts = self._attempts(checkpoint)
        return [version for version in attempts if self._remote.is_written(f"{node}/{version}/{layout.MANIFEST}")]

    def _attempts(self, checkpoint: CheckpointRef) -> Sequence[layout.Version]:
        """Return the versions of a checkpoint, in order, whether or not they have been committed.

        One listing of the node's own folder: to look into the folders of all its checkpoints takes a call for each.
        """
        return layout.versions_of(checkpoint.resource, self._remote.list(layout.node_folder(checkpoint)))

    def _remove_version(self, checkpoint: CheckpointRef, version: layout.Version) -> None:
        self.remove_tree(f"{layout.node_folder(checkpoint)}/{version}")

    def _download(self, checkpoint: CheckpointRef, local: Path) -> Path:
        tried: layout.Version | None = None
        # A listing that began before the new version and ended after the old one shows neither: list again.
        while found := self._download_newest(checkpoint, local) or self._download_newest(checkpoint, local):
            version, files, wrong = found
            if wrong is None:
                return files
            # The first time, it may just have been replaced or deleted, or the transfer may have damaged it.
            if tried == version:
                raise damaged(checkpoint, f"{self._remote.shown}/{layout.node_folder(checkpoint)}/{version}", wrong)
            remove_tree(files)
            tried = version
        raise missing(checkpoint, self._remote.shown)

    def _download_newest(
        self, checkpoint: CheckpointRef, local: Path
    ) -> tuple[layout.Version, Path, str | None] | None:
        """Download the newest committed version; return it, its files, and how they differ from what was committed."""
        for version in reversed(self._attempts(checkpoint)):
            files = local / layout.FILES
            files.mkdir()
            wrong = self._download_version(checkpoint, f"{layout.node_folder(checkpoint)}/{version}", files)
            if wrong != _NOT_COMMITTED:
                return version, files, wrong
            remove_tree(files)
        return None

    def _download_version(self, checkpoint: CheckpointRef, folder: str, local: Path) -> str | None:
        """Download a version; return how it differs from what was committed (None: not at all), or _NOT_COMMITTED."""
        data = self._remote.read(f"{folder}/{layout.MANIFEST}")
        if data is None or (not data and self._remote.shows_unfinished):
            return _NOT_COMMITTED
        try:
            manifest = Manifest.decode(data)
        except ValueError as error:
            return f"its {layout.MANIFEST} has become unreadable ({error})"
        if (wrong := wrong_checkpoint(manifest, checkpoint)) is not None:
            return wrong
        (local.parent / layout.MANIFEST).write_bytes(data)
        for name in manifest.folders:
            (local / name).mkdir(parents=True, exist_ok=True)
        for file in manifest.files:
            (local / file.name).parent.mkdir(parents=True, exist_ok=True)  # one that only a shard's worker has made
            found = self._remote.download(f"{folder}/{layout.FILES}/{file.name}", local / file.name)
            wrong = f"file {file.name!r} has vanished" if found is None else file.difference(found)
            if wrong is not None:
                return wrong
        return None


def _own_version(checkpoint: CheckpointRef, older: Sequence[layout.Version], shards: Shards | None) -> layout.Version:
    if shards is None or not shards.place:
        return _next_version(checkpoint, older)
    return layout.parse_versions([layout.check_version(shards.place, checkpoint.resource)])[0]


def _next_version(checkpoint: CheckpointRef, older: Sequence[layout.Version]) -> layout.Version:
    number = max((version.number for version in older), default=0) + 1
    return layout.Version(checkpoint.resource, number, uuid.uuid4().hex)


def _version_of(attempt: int, checkpoint: CheckpointRef) -> layout.Version:
    """Return the version that an attempt writes, and no other one; a later attempt has a higher one."""
    return layout.Version(checkpoint.resource, attempt + 1, _NUMBERED)


def _is_staged(folder: Path) -> bool:
    return os.path.lexists(folder) and folder.name == layout.FILES and folder.parent.name.startswith(f"{_STAGE}-")
