"""The checkpoints that this worker saved or loaded last, kept on its disk, so that resuming from them fetches nothing.

The driver models each worker's cache (``engine.pool``) and prefers that worker for work that resumes from a cached
checkpoint. The model may be wrong: the worker fetches a missing copy again, and one whose files were written to.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from asyncsearch.files.trees import copy_tree, size_bytes, walk
from asyncsearch.ids import CheckpointRef
from asyncsearch.store.base_store import Store
from asyncsearch.store.layout import MANIFEST
from asyncsearch.store.manifest import Manifest, PackedWith, Shards
from asyncsearch.store.scratch import remove_folder
from asyncsearch.work import KEPT_CHECKPOINTS

KEPT_BYTES = 2**30
"""Size limit of the copies on a worker's disk; copies in use do not count."""


_Stamps = dict[str, tuple[int, int, int]]


class _Copy:
    """A local folder with the files of a checkpoint."""

    def __init__(self, folder: Path, size_bytes: int, stack: contextlib.ExitStack) -> None:
        self.folder, self.size_bytes, self.stack = folder, size_bytes, stack
        self.users = 0
        self.is_kept = False
        self._stamps: _Stamps | None = None

    def remember(self) -> None:
        """Remember how the files are now, before anybody can write to them."""
        self._stamps = _stamps(self.folder)

    def is_intact(self) -> bool:
        """Return whether the files are still there, and no one has written to them."""
        return self._stamps is not None and _stamps(self.folder) == self._stamps


class CheckpointCache:
    """Fetches and commits as a store does, and keeps local copies. Any thread may call any method.

    Args:
        store: durable storage of checkpoints. A store whose ``fetch`` copies nothing is used directly.
        most: maximum number of copies.
        most_bytes: maximum total size of the copies.
    """

    def __init__(self, store: Store, most: int = KEPT_CHECKPOINTS, most_bytes: int = KEPT_BYTES) -> None:
        self._store, self._most, self._most_bytes = store, most, most_bytes
        self._guard = threading.Lock()
        self._copies: dict[CheckpointRef, _Copy] = {}
        """Copies in order of use, the most recent last."""
        self._is_closed = False

    @contextlib.contextmanager
    def fetch(self, checkpoint: CheckpointRef) -> Iterator[Path]:
        """Yield a local folder with the checkpoint's files, read-only and valid inside the ``with`` block.

        Raises:
            StoreError: the checkpoint is not cached, and cannot be fetched.
        """
        copy = self._find(checkpoint) or self._bring(checkpoint)
        try:
            yield copy.folder
        finally:
            with self._guard:
                # ``close`` may have set it to 0 while this user was inside.
                copy.users = max(0, copy.users - 1)
            self._tidy(copy)

    def commit(
        self,
        checkpoint: CheckpointRef,
        staged: Path,
        packed_with: PackedWith | None = None,
        shards: Shards | None = None,
        attempt: int | None = None,
    ) -> int:
        """Make a staged folder durable, as ``Store.commit`` does, and keep a copy, unless other workers have shards.

        With ``attempt``, as ``Store.commit_of`` does.

        Raises:
            StoreError: the store could not make it durable.
        """
        if shards is not None:
            return self._store.commit(checkpoint, staged, packed_with, shards)
        commit = self._store.commit if attempt is None else functools.partial(self._store.commit_of, attempt)
        manifest = b"" if packed_with is None else Manifest([], []).encode(checkpoint, packed_with)
        links = _linked(staged, manifest) if self._store.is_far else None
        with contextlib.ExitStack() as stack:
            if links is not None:
                stack.callback(_remove, links)
            if packed_with is None:  # a store of an earlier version knows nothing else
                stored_bytes = commit(checkpoint, staged)
            else:
                stored_bytes = commit(checkpoint, staged, packed_with)
            if links is not None:
                self._keep(checkpoint, _Copy(links, stored_bytes, stack.pop_all()))
        return stored_bytes

    def close(self) -> None:
        """Remove all copies, even those in use, whose runner is gone."""
        with self._guard:
            self._is_closed = True
            copies = list(self._copies.values())
            self._copies.clear()
            for copy in copies:
                copy.is_kept, copy.users = False, 0
        for copy in copies:
            self._tidy(copy)

    def _find(self, checkpoint: CheckpointRef) -> _Copy | None:
        with self._guard:
            copy = self._copies.pop(checkpoint, None)
            if copy is None:
                return None
            # A cleaner of temporary folders may have removed it, and a load() that is no pure reader changed it.
            if copy.is_intact():
                self._copies[checkpoint] = copy
                copy.users += 1
                return copy
            copy.is_kept = False
        self._tidy(copy)
        return None

    def _bring(self, checkpoint: CheckpointRef) -> _Copy:
        stack = contextlib.ExitStack()
        folder = stack.enter_context(self._store.fetch(checkpoint))
        copy = _Copy(folder, 0, stack)
        copy.users = 1
        if self._store.is_far:
            copy.size_bytes = size_bytes(folder)
            self._keep(checkpoint, copy)
        return copy

    def _keep(self, checkpoint: CheckpointRef, copy: _Copy) -> None:
        copy.remember()
        with self._guard:
            former = self._copies.pop(checkpoint, None)
            gone = [former] if former is not None else []
            if not self._is_closed:
                self._copies[checkpoint] = copy
                copy.is_kept = True
            while len(self._copies) > self._most or self._bytes() > self._most_bytes:
                gone.append(self._copies.pop(next(iter(self._copies))))
        for old in gone:
            old.is_kept = False
            self._tidy(old)
        self._tidy(copy)

    def _bytes(self) -> int:
        return sum(copy.size_bytes for copy in self._copies.values())

    def _tidy(self, copy: _Copy) -> None:
        """Remove a copy that is neither kept nor in use, once."""
        with self._guard:
            if copy.is_kept or copy.users:
                return
        with contextlib.suppress(OSError):
            copy.stack.close()


def _stamps(folder: Path) -> _Stamps | None:
    """Return which files a folder holds, their sizes and when they were written. None if it cannot be read."""
    with contextlib.suppress(OSError):
        found = [(entry.name, entry.status) for entry in walk(folder) if not entry.is_folder]
        return {name: (one.st_ino, one.st_size, one.st_mtime_ns) for name, one in found}
    return None


def _linked(staged: Path, manifest: bytes) -> Path | None:
    """Return a folder with hard links to the same files, which take no extra space. None if this disk takes none.

    It is whole before the commit: what failed behind one would be committed again, which no store does.
    """
    folder: Path | None = None
    try:
        folder = Path(tempfile.mkdtemp(prefix="kept-", dir=staged.parent.parent)) / staged.name
        copy_tree(staged, folder, as_links=True)
        if manifest:
            (folder.parent / MANIFEST).write_bytes(manifest)
    except OSError:
        if folder is not None:
            _remove(folder)
        return None
    return folder


def _remove(folder: Path) -> None:
    remove_folder(folder.parent)
