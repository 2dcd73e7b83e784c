"""A store in a folder of a local disk, or of a shared POSIX mount (NFS, Lustre, ...) that all workers see.

It stays consistent whichever process is killed, at any time: everything is written and synced under ``tmp/``, then
renamed. A checkpoint is one folder with its files and its manifest, and its rename is its commit. A second commit of
the same checkpoint is a rename beside the first (``81.2`` beside ``81``), and the highest version counts, so there is
always a committed one. The previous version is kept until the next commit or ``sweep``, for processes that still read
it.

On NFS, names that another machine has just created may be invisible for seconds: mount with ``lookupcache=positive``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from asyncsearch.errors import StoreError, StoreLockedError, StoreLostError
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.store import flock, layout
from asyncsearch.store.base_store import FileInfo, Store
from asyncsearch.store.disk import (
    FileIdentity,
    discard,
    explained,
    make_folders,
    sync_data,
    sync_folder,
    write_all,
    write_new,
)
from asyncsearch.store.head_file import LocalHeadFile
from asyncsearch.store.manifest import Manifest, check, damaged, missing, survey
from asyncsearch.store.no_follow import inside, open_file, read_file
from asyncsearch.store.rescue import Rescue, rescue_files

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class LocalSegment:
    """A journal segment on disk; each append is one write and one sync, and a look whether the file is still there.

    A file that was removed can be written as before, and all that is written is gone when it is closed.
    """

    def __init__(self, path: Path, descriptor: int, rescue: Rescue, lock: FileIdentity | None) -> None:
        self._path, self._rescue, self._lock = path, rescue, lock
        self._identity = FileIdentity.of(path, descriptor)
        self._descriptor: int | None = descriptor
        self._has_failed = False
        """Whether an append failed, so that its end is unknown: it is held open only to be rescued if it is lost."""

    @property
    def name(self) -> str:
        return self._path.name

    def append(self, data: bytes) -> None:
        assert data.endswith(b"\n"), "a segment takes whole lines"
        if self._descriptor is None or self._has_failed:
            raise StoreError(f"Journal segment {str(self._path)!r} is closed. Go on in a new one: open_segment().")
        try:
            self._require_in_place()  # before it, too: what is not acknowledged should not be found later
            with explained("write the journal", self._path):
                write_all(self._descriptor, data)
                sync_data(self._descriptor)
            self._require_in_place()
        except (StoreLostError, StoreLockedError):
            self._release()
            raise
        except BaseException:
            # After a failed write or sync the end of the segment is unknown: the next line could be appended to half a
            # line, or be acknowledged after a lost one. It stays open, so that it can be rescued if it is removed.
            self._has_failed = True
            raise

    def close(self) -> None:
        if self._descriptor is None:
            return
        try:
            self._require_in_place()
        finally:
            self._release()

    def _require_in_place(self) -> None:
        try:
            if not self._identity.is_in_place():
                raise self._rescue.lost(self._path)
            if self._lock is not None:
                flock.require_in_place(self._lock)
        except OSError:
            with explained("look for the journal", self._path):
                raise

    def _release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            self._rescue.close()


class LocalStore(Store):
    """One study's folder on a disk. It has no open files, so it can be pickled to workers that see the same path."""

    def __init__(self, root: str | Path) -> None:
        self._root = Path(os.path.abspath(root))
        self._tmp = self._root / "tmp"

    def __repr__(self) -> str:
        return f"LocalStore({str(self._root)!r})"

    @property
    def url(self) -> str:
        return str(self._root)

    @property
    def is_far(self) -> bool:
        return False

    @property
    def is_exclusive(self) -> bool:
        return True

    def at(self, url: str) -> Store:
        return LocalStore(url)

    def rescued(self) -> Sequence[str]:
        return [str(path) for path in rescue_files(self._root)]

    def prepare(self) -> None:
        choose = f"Choose a folder that can be made and written, e.g. Study(..., store='studies/{self._root.name}')"
        with explained("make the store", self._root, choose):
            for name in layout.FOLDERS:
                folder = self._folder(name)
                make_folders(folder)
                if not os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
                    raise PermissionError(errno.EACCES, f"{name!r} in it cannot be written by this user")
            if self._tmp.stat().st_dev != (self._root / "checkpoints").stat().st_dev:
                raise StoreError(
                    f"The folders in {str(self._root)!r} lie on different disks, so a checkpoint cannot be committed by"
                    " a rename. Let the whole store lie on one disk."
                )
        with explained("write, move and read back a file", self._root):
            probe, data = self._tmp / f"probe-{uuid.uuid4().hex}", b"asyncsearch was here\n" * 200
            write_new(probe, data)
            moved = probe.rename(probe.with_suffix(".moved"))
            sync_folder(self._tmp)
            found = moved.read_bytes()
            moved.unlink()
        if found != data:
            raise StoreError(
                f"Cannot use the store at {str(self._root)!r}: what was written to it was read back differently."
                " Check that disk, or choose another."
            )

    def lock(self) -> AbstractContextManager[None]:
        return flock.hold(self._root / "lock")

    def is_locked(self) -> bool:
        return flock.is_held(self._root / "lock")

    # Small files

    def read(self, name: str) -> bytes | None:
        path = self._path(name)
        with explained("read", path):
            try:
                return read_file(path)
            except FileNotFoundError:
                return None

    def write(self, name: str, data: bytes) -> None:
        path = self._path(name)
        with explained("write", path):
            make_folders(path.parent)
            make_folders(self._folder("tmp"))
            staged = self._tmp / f"file-{uuid.uuid4().hex}"
            try:
                write_new(staged, data)
                os.replace(staged, path)
            except BaseException:
                staged.unlink(missing_ok=True)
                raise
            sync_folder(path.parent)

    def create(self, name: str, data: bytes) -> bool:
        path, staged = self._path(name), self._tmp / f"file-{uuid.uuid4().hex}"
        with explained("create", path):
            make_folders(self._folder("tmp"))
            staged.write_bytes(data)
            try:
                while True:
                    make_folders(path.parent)
                    try:
                        return _link(staged, path, data)
                    except FileNotFoundError:
                        if path.parent.is_dir():  # else another process has just removed the empty folder
                            raise
            finally:
                staged.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        path = self._path(name)
        with explained("remove", path):
            path.unlink(missing_ok=True)

    def list(self, folder: str) -> Sequence[str]:
        path = self._folder(layout.check_name(folder, ()))
        with explained("list", path):
            return _names(path)

    def walk(self, folder: str = "") -> Mapping[str, FileInfo]:
        path = self._folder(layout.check_name(folder, ())) if folder else self._root
        with explained("list", path):
            return dict(_walk(path, ""))

    def remove_tree(self, folder: str) -> None:
        path = inside(self._root, layout.check_name(folder, ()))
        with explained("remove", path):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def remove_if_empty(self, folder: str) -> None:
        with contextlib.suppress(OSError):
            self._path(folder).rmdir()

    # Journal

    def read_segment(self, name: str) -> Iterator[bytes]:
        path = self._path(f"journal/{layout.check_segment(name)}")
        if not _exists(path):
            raise StoreError(f"There is no journal segment at {str(path)!r}. Take its name from journal_segments().")
        return _lines(path)

    def open_segment(self) -> LocalSegment:
        folder = self._folder("journal")
        with explained("begin a journal segment", folder):
            make_folders(folder)
            number = max(layout.segment_numbers(_names(folder)), default=0)
            while True:
                number += 1
                path = folder / layout.segment_name(number)
                with contextlib.suppress(FileExistsError):
                    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o666)
                    break
            sync_folder(folder)
        return LocalSegment(path, descriptor, Rescue(self._root), flock.held(self._root / "lock"))

    def open_head(self) -> LocalHeadFile:
        return LocalHeadFile(self._root)

    # Checkpoints

    def stage(self, checkpoint: CheckpointRef) -> Path:
        layout.node_folder(checkpoint)
        name = f"checkpoint-{checkpoint.node[:8]}-{checkpoint.resource}-{uuid.uuid4().hex}"
        staged = self._folder("tmp") / name / layout.FILES
        with explained(f"stage checkpoint {checkpoint}", staged):
            staged.mkdir(parents=True)
        return staged

    def commit(self, checkpoint: CheckpointRef, staged: Path) -> int:
        node = self._folder(layout.node_folder(checkpoint))
        whole = staged.parent
        with explained(f"commit checkpoint {checkpoint}", staged):
            if not self._is_staged(staged):
                raise StoreError(
                    f"Cannot commit checkpoint {checkpoint} from {str(staged)!r}: it is not, or no longer, a folder"
                    f" that stage() of the store at {self.url!r} gave. A staged folder is committed once, and lost when"
                    " a new driver opens the study; stage and write it again."
                )
            manifest = survey(staged, os.fsync, sync_folder)
            described = whole / layout.MANIFEST
            described.unlink(missing_ok=True)  # an earlier attempt to commit this folder may have left it
            write_new(described, manifest.encode(checkpoint))
            sync_folder(whole)
            number = self._publish(whole, node, checkpoint.resource)
            for version in self._versions(checkpoint):
                if version.number < number - 1:
                    discard(node / str(version), self._tmp)
        return manifest.size_bytes

    def discard(self, staged: Path) -> None:
        with contextlib.suppress(OSError, StoreError):
            if not self._is_staged(staged):
                return
            shutil.rmtree(staged.parent, ignore_errors=True)

    @contextlib.contextmanager
    def fetch(self, checkpoint: CheckpointRef) -> Iterator[Path]:
        with explained(f"find checkpoint {checkpoint}", self._root):
            folder, manifest = self._find(checkpoint)
        check(manifest, folder / layout.FILES, checkpoint)
        yield folder / layout.FILES

    def delete(self, checkpoint: CheckpointRef) -> None:
        self._folder("tmp")
        node = self._folder(layout.node_folder(checkpoint))
        with explained(f"delete checkpoint {checkpoint}", node):
            for version in self._versions(checkpoint):  # the highest is removed last: an older one must not reappear
                discard(node / str(version), self._tmp)
            self.remove_if_empty(layout.node_folder(checkpoint))

    def checkpoints(self, node: NodeKey | None = None) -> Sequence[CheckpointRef]:
        folder = self._folder("checkpoints")
        found: set[CheckpointRef] = set()
        with explained("list the checkpoints", folder):
            for name in _names(folder) if node is None else [node]:
                found |= layout.references(name, layout.parse_versions(_names(folder / name)))
        return sorted(found, key=lambda checkpoint: (checkpoint.node, checkpoint.resource))

    def sweep(self) -> None:
        with explained("sweep", self._root):
            for name in filter(layout.is_temporary, _names(self._folder("tmp"))):
                discard(self._tmp / name, self._tmp)
            for checkpoint in self.checkpoints():
                for version in self._versions(checkpoint)[:-1]:
                    discard(self._folder(layout.node_folder(checkpoint)) / str(version), self._tmp)

    # Logs

    def append_log(self, name: str, lines: Sequence[str]) -> None:
        path = inside(self._root, layout.log_file(name))
        data = "".join(f"{line}\n" for line in lines).encode(errors="backslashreplace")
        with explained("write a log", path):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = open_file(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                write_all(descriptor, data)
            finally:
                os.close(descriptor)

    def read_log(self, name: str) -> Iterator[str]:
        path = inside(self._root, layout.log_file(name))
        lines = _lines(path) if _exists(path) else iter(())
        return (line.decode(errors="replace").removesuffix("\n") for line in lines)

    def _path(self, name: str) -> Path:
        return inside(self._root, layout.check_name(name))

    def _folder(self, name: str) -> Path:
        return inside(self._root, name, is_folder=True)

    def _versions(self, checkpoint: CheckpointRef) -> Sequence[layout.Version]:
        found = layout.parse_versions(_names(self._folder(layout.node_folder(checkpoint))))
        return [version for version in found if version.resource == checkpoint.resource]

    def _find(self, checkpoint: CheckpointRef) -> tuple[Path, Manifest]:
        while versions := self._versions(checkpoint):
            folder = self._root / layout.node_folder(checkpoint) / str(versions[-1])
            try:
                return folder, Manifest.decode(read_file(folder / layout.MANIFEST))
            except (OSError, ValueError) as error:
                if folder.exists():  # else it has just been replaced or deleted
                    reason = f"its {layout.MANIFEST} has become unreadable ({error})"
                    raise damaged(checkpoint, folder, reason) from error
        raise missing(checkpoint, self.url)

    def _is_staged(self, folder: Path) -> bool:
        return (
            folder.is_dir()
            and folder.name == layout.FILES
            and os.path.samefile(folder.parent.parent, self._folder("tmp"))
        )

    def _publish(self, whole: Path, node: Path, resource: int) -> int:
        """Rename a staged checkpoint to the next free version, and return its number."""
        taken = 0
        while True:
            make_folders(node)
            versions = layout.parse_versions(_names(node))
            taken = max([taken, *(version.number for version in versions if version.resource == resource)])
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


def _exists(path: Path) -> bool:
    with explained("look for", path):
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _walk(folder: Path, inside: str) -> Iterator[tuple[str, FileInfo]]:
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(folder / entry.name, f"{inside}{entry.name}/")
            continue
        with contextlib.suppress(FileNotFoundError):
            status = entry.stat(follow_symlinks=False)
            yield inside + entry.name, FileInfo(status.st_size, status.st_mtime)


def _link(staged: Path, path: Path, data: bytes) -> bool:
    try:
        os.link(staged, path)
    except FileExistsError:
        # On NFS a successful link can be repeated, and the repetition reports an error.
        return os.stat(staged).st_nlink == 2
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        try:
            with open(path, "xb") as file:
                file.write(data)
        except FileExistsError:
            return False
    return True


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, or of the numbered chunks that other kinds of store write instead."""
    with explained("read", path):
        for part in sorted(path.iterdir()) if path.is_dir() and not path.is_symlink() else [path]:
            with open(open_file(part, os.O_RDONLY), "rb") as file:
                yield from file
