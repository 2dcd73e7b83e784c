"""The checkpoints of a store on a disk: each is a folder with its files and its manifest, and its rename is its commit.

A second commit of the same checkpoint is a rename beside the first (``81.2`` beside ``81``), and the highest version
counts, so there is always a committed one. The previous version is kept until the next commit or ``sweep``, for
processes that still read it.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from asyncsearch.errors import CheckpointError, NotAFileError, StoreError
from asyncsearch.files.contents import UnchangedFolders, stamps_of
from asyncsearch.files.plain import is_folder, read_file
from asyncsearch.files.trees import remove_tree
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.store import layout, scratch
from asyncsearch.store.disk import discard, explained, make_folders, sweep_away, write_new
from asyncsearch.store.local.files import DiskFiles, names_in
from asyncsearch.store.manifest import (
    Manifest,
    PackedWith,
    Shards,
    StoredFile,
    check,
    copy_files,
    damaged,
    holds_more,
    missing,
    require_damage,
)
from asyncsearch.store.staged_files import gone, require_shards, survey, written_twice
from asyncsearch.store.syncing import sync_folder, sync_tree, writing_ahead

_log = logging.getLogger(__name__)


class DiskCheckpoints(DiskFiles):
    """The part of a store that stages, commits, finds and deletes checkpoints below a folder."""

    def stage(self, checkpoint: CheckpointRef) -> Path:
        layout.node_folder(checkpoint)
        name = f"checkpoint-{checkpoint.node[:8]}-{checkpoint.resource}-{uuid.uuid4().hex}"
        staged = self._folder("tmp") / name / layout.FILES
        for folder in (self._root, self._tmp):
            if os.path.lexists(folder) and not folder.is_dir():  # no wait would make it one
                raise NotAFileError(f"{str(folder)!r} lies in the place of a folder of the store: move it away.")
        with explained(f"stage checkpoint {checkpoint}", staged):
            staged.mkdir(parents=True)
        return staged

    def commit(
        self,
        checkpoint: CheckpointRef,
        staged: Path,
        packed_with: PackedWith | None = None,
        shards: Shards | None = None,
    ) -> int:
        node = self._folder(layout.node_folder(checkpoint))
        whole = staged.parent
        with explained(f"commit checkpoint {checkpoint}", staged):
            if not self._is_staged(staged):
                raise StoreError(
                    f"Cannot commit checkpoint {checkpoint} from {str(staged)!r}: it is not, or no longer, a folder"
                    f" that stage() of the store at {str(self._root)!r} gave. A staged folder is committed once, and"
                    " lost when a new driver opens the study; stage and write it again."
                )
            _require_folder(staged)
            seen = stamps_of(staged)  # before it is hashed: what is written into it later is noticed
            with writing_ahead(staged):
                manifest = survey(staged, {} if shards is None else shards.by_name)
            require_shards(shards, manifest, checkpoint)
            described = whole / layout.MANIFEST
            remove_tree(described)  # an earlier attempt to commit this folder may have left it, or the worker
            write_new(described, manifest.encode(checkpoint, packed_with, shards), is_durable=False)
            is_first = _made(node)
            # Before the rename: after a power cut, a name that survives must lead to files and a manifest that do.
            _sync(whole, manifest, [node.parent] if is_first else [])
            number = self._publish(whole, node, checkpoint.resource)
            if shards is None:  # else others have hashed some of the files, at another time
                _known.note(node / str(layout.Version(checkpoint.resource, number)) / layout.FILES, seen)
            for version in self._versions(checkpoint):
                # The version before stays: a worker that has just listed it may be reading it.
                if version.number < number - 1:
                    discard(node / str(version), self._tmp)
        return manifest.size_bytes

    def shard_place(self, checkpoint: CheckpointRef, staged: Path) -> str:
        return staged.parent.name  # the staged folder itself, which all workers reach; ``discard`` removes it

    def add_shard(self, checkpoint: CheckpointRef, place: str, staged: Path) -> Sequence[StoredFile]:
        target = self._folder("tmp") / layout.check_place(place) / layout.FILES
        with explained(f"add a shard to checkpoint {checkpoint}", target):
            if not self._is_staged(staged) or not is_folder(target):
                raise gone(checkpoint, target)
            _require_folder(staged)
            with writing_ahead(staged):
                shard = survey(staged)
            _open_up(target)
            for name in shard.folders:
                if os.path.lexists(target / name) and not is_folder(target / name):
                    raise written_twice(checkpoint, name)
                (target / name).mkdir(exist_ok=True)
                _open_up(staged / name, target / name)  # what a worker has closed to itself takes and gives no file
            for file in shard.files:
                if os.path.lexists(target / file.name):
                    raise written_twice(checkpoint, file.name)
                os.rename(staged / file.name, target / file.name)
            sync_tree(target, [file.name for file in shard.files], shard.folders, shard.size_bytes)
        self.discard(staged)
        return shard.files

    def discard(self, staged: Path) -> None:
        with contextlib.suppress(OSError, StoreError):
            if not self._is_staged(staged):
                return
            remove_tree(staged.parent)

    @contextlib.contextmanager
    def fetch(self, checkpoint: CheckpointRef) -> Iterator[Path]:
        """Provide the files of a checkpoint, which were compared with its manifest: its own folder.

        They are not read for it where this process has committed or compared them, and they are unchanged since.

        Where there is more in it than the manifest names, which is no part of the checkpoint, a copy without that.
        """
        with explained(f"find checkpoint {checkpoint}", self._root):
            folder, manifest = self._find(checkpoint)
        files = folder / layout.FILES
        with contextlib.ExitStack() as stack:
            with explained(f"read checkpoint {checkpoint}", folder):
                if not is_folder(files):
                    raise damaged(checkpoint, folder, f"the folder {layout.FILES!r} is missing")
                is_known, seen = _known.is_unchanged(files), stamps_of(files)
                check(manifest, files, checkpoint, are_files_known=is_known)
                if not is_known:
                    _known.note(files, seen)
                if holds_more(manifest, files):
                    _log.warning("%s holds more than was committed; the rest is left out.", files)
                    place = stack.enter_context(scratch.temporary_folder("fetch"))
                    files = copy_files(manifest, files, place, checkpoint)
            yield files

    def delete(self, checkpoint: CheckpointRef) -> None:
        self._folder("tmp")
        node = self._folder(layout.node_folder(checkpoint))
        with explained(f"delete checkpoint {checkpoint}", node):
            for version in self._versions(checkpoint):  # the highest is removed last: an older one must not reappear
                discard(node / str(version), self._tmp)
            with contextlib.suppress(OSError):
                node.rmdir()

    def checkpoints(self, node: NodeKey | None = None) -> Sequence[CheckpointRef]:
        folder = self._folder("checkpoints")
        found: set[CheckpointRef] = set()
        with explained("list the checkpoints", folder):
            for name in filter(layout.is_node, names_in(folder) if node is None else [node]):
                found |= layout.references(name, layout.parse_versions(names_in(folder / name)))
        return sorted(found, key=lambda checkpoint: (checkpoint.node, checkpoint.resource))

    def sweep(self) -> None:
        with explained("sweep", self._root):
            for name in filter(layout.is_temporary, names_in(self._folder("tmp"))):
                sweep_away(self._tmp / name, self._tmp)
            for checkpoint in self.checkpoints():
                for version in self._versions(checkpoint)[:-1]:
                    sweep_away(self._folder(layout.node_folder(checkpoint)) / str(version), self._tmp)

    def _versions(self, checkpoint: CheckpointRef) -> Sequence[layout.Version]:
        return layout.versions_of(checkpoint.resource, names_in(self._folder(layout.node_folder(checkpoint))))

    def _find(self, checkpoint: CheckpointRef) -> tuple[Path, Manifest]:
        while versions := self._versions(checkpoint):
            folder = self._root / layout.node_folder(checkpoint) / str(versions[-1])
            try:
                return folder, Manifest.decode(read_file(folder / layout.MANIFEST))
            except (OSError, ValueError) as error:
                if isinstance(error, OSError):
                    require_damage(error)
                if folder.exists():  # else it has just been replaced or deleted
                    reason = f"its {layout.MANIFEST} has become unreadable ({error})"
                    raise damaged(checkpoint, folder, reason) from error
        raise missing(checkpoint, str(self._root))

    def _is_staged(self, folder: Path) -> bool:
        is_named_so = os.path.lexists(folder) and folder.name == layout.FILES
        return is_named_so and os.path.samefile(folder.parent.parent, self._folder("tmp"))

    def _publish(self, whole: Path, node: Path, resource: int) -> int:
        """Rename a staged checkpoint to the next free version, and return its number."""
        taken = 0
        while True:
            make_folders(node)
            taken = max([taken, *(version.number for version in layout.versions_of(resource, names_in(node)))])
            try:
                os.rename(whole, node / str(layout.Version(resource, taken + 1)))
                break
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    taken += 1  # another worker was faster
                elif error.errno != errno.ENOENT or not whole.exists():
                    raise  # otherwise a delete has just removed the node's empty folder
        sync_folder(node)
        return taken + 1


_known = UnchangedFolders()
"""Of this process: what it committed or compared is not read for each entry, 1.25 s a GB in which a worker waits."""


def _made(node: Path) -> bool:
    """Make the folder of a node if there is none, its name not yet durable; return whether there was none."""
    if node.is_dir():
        return False
    make_folders(node.parent)
    with contextlib.suppress(FileExistsError):  # another worker was faster
        node.mkdir()
    return True


def _sync(whole: Path, manifest: Manifest, parents: Sequence[Path]) -> None:
    """Make a staged checkpoint durable, apart from its own name, and the names in some other folders."""
    files = [f"{layout.FILES}/{file.name}" for file in manifest.files]
    folders = [layout.FILES, *(f"{layout.FILES}/{name}" for name in manifest.folders)]
    sync_tree(whole, [layout.MANIFEST, *files], folders, manifest.size_bytes, parents)


def _require_folder(staged: Path) -> None:
    """Check that a worker has left the folder that it got, and open it again if it has closed it."""
    if not is_folder(staged):
        raise CheckpointError(
            f"{str(staged)!r} is no folder any more: save() put something else in the place of the folder that it wrote"
            " to. Let it write at the path that it gets."
        )
    _open_up(staged.parent, staged)


def _open_up(*folders: Path) -> None:
    """Let the owner of folders use them."""
    for folder in folders:
        with contextlib.suppress(OSError):
            if (mode := folder.stat().st_mode & 0o777) & 0o700 != 0o700:
                folder.chmod(mode | 0o700)
