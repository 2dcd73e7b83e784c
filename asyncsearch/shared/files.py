"""The files of a shared folder: small JSON that a person can read, and what the two kinds of store add to it.

Every file carries ``format``. A newer one is refused, since nobody knows what it promises; a damaged one counts as
absent, and that is logged once.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from asyncsearch.errors import StoreError
from asyncsearch.store.base_store import Store
from asyncsearch.store.disk import explained, make_folders
from asyncsearch.store.fsspec_store import FsspecStore
from asyncsearch.store.layout import MANIFEST, check_name

FORMAT = 1
"""Version of everything that is written into a shared folder."""

logger = logging.getLogger(__name__)

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_EXCLUSIVE = {"file", "local", "memory", "s3", "s3a", "gs", "gcs"}
_MODIFIED = ("mtime", "LastModified", "last_modified", "updated", "modification_time", "modificationTime", "created")


class FoundFile(NamedTuple):
    """A file that was found below a folder."""

    size_bytes: int
    modified_s: float | None
    """Unix time by the file system's clock; None where it does not tell."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Base of what is written."""

    format: int = FORMAT


_WRITTEN = msgspec.json.Decoder(Written)


class Unreadable(NamedTuple):
    """A file that is there and says nothing."""

    name: str


W = TypeVar("W", bound=Written)


class Backend(Protocol):
    """What a shared folder needs beyond a ``Store``."""

    @property
    def is_exclusive(self) -> bool:
        """Whether of several ``create`` of one name exactly one succeeds, whichever machines they come from."""

    def create(self, name: str, data: bytes) -> bool:
        """Write a file that does not exist yet; return False if it does."""

    @property
    def commits_by_rename(self) -> bool:
        """Whether a checkpoint's folder is there whole or not at all; else its manifest says that it is."""

    def walk(self, folder: str) -> dict[str, FoundFile]:
        """Return the files below a folder, at any depth, by their names inside it."""

    def names(self, folder: str) -> list[str]:
        """Return the sorted names directly in a folder."""

    def remove_tree(self, folder: str) -> None:
        """Remove a folder and all below it; no error if there is none."""

    def remove_if_empty(self, folder: str) -> None:
        """Remove a folder in which nothing lies, where folders exist of themselves."""


class SharedFiles:
    """Typed small files in one store. Safe from any thread."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.backend: Backend = _Far(store) if isinstance(store, FsspecStore) else _Disk(Path(store.url))
        self._told: set[str] = set()
        self._guard = threading.Lock()

    def look(self, name: str, kind: msgspec.json.Decoder[W]) -> W | Unreadable | None:
        """Return what a file says, ``Unreadable`` if it is damaged, or None if there is none.

        Raises:
            StoreError: it was written by a newer version.
        """
        data = self.store.read(name)
        if data is None:
            return None
        try:
            version = _WRITTEN.decode(data).format
            if version > FORMAT:
                raise StoreError(
                    f"{name!r} in the shared folder {self.store.shown!r} has format {version}, and this version of"
                    f" asyncsearch knows formats up to {FORMAT}: another study there runs a newer version. Update"
                    " asyncsearch here, or give this study another folder: Sharing(shared=...)."
                )
            return kind.decode(data)
        except msgspec.DecodeError:
            return Unreadable(name)

    def read(self, name: str, kind: msgspec.json.Decoder[W]) -> W | None:
        """Return what a file says, or None if there is none or it is damaged; the latter is logged once."""
        found = self.look(name, kind)
        if isinstance(found, Unreadable):
            self.tell(name, f"{name!r} in the shared folder {self.store.shown!r} is damaged and counts as absent.")
            return None
        return found

    def write(self, name: str, value: Written) -> None:
        """Write a file at one stroke."""
        self.store.write(name, encode(value))

    def create(self, name: str, value: Written) -> bool:
        """Write a file that does not exist yet; return False if it does."""
        return self.backend.create(check_name(name), encode(value))

    def tell(self, about: str, words: str) -> None:
        """Log a warning, once for each thing that it is about."""
        with self._guard:
            if about in self._told:
                return
            self._told.add(about)
        logger.warning("%s", words)


def encode(value: Written) -> bytes:
    """Return a file's content, indented for people."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


class _Disk:
    """A folder on a POSIX file system."""

    is_exclusive = True
    commits_by_rename = True

    def __init__(self, root: Path) -> None:
        self._root = root

    def create(self, name: str, data: bytes) -> bool:
        path, staged = self._root / name, self._root / "tmp" / f"file-{uuid.uuid4().hex}"
        with explained("create", path):
            make_folders(staged.parent)
            staged.write_bytes(data)
            try:
                while True:
                    make_folders(path.parent)
                    try:
                        return self._link(staged, path, data)
                    except FileNotFoundError:
                        if path.parent.is_dir():  # else somebody has just removed it because it was empty
                            raise
            finally:
                staged.unlink(missing_ok=True)

    def _link(self, staged: Path, path: Path, data: bytes) -> bool:
        try:
            os.link(staged, path)
        except FileExistsError:
            # On NFS a link that was made can be answered a second time, by an error.
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

    def walk(self, folder: str) -> dict[str, FoundFile]:
        root = self._root / folder
        with explained("list", root):
            return dict(_walk(root, ""))

    def names(self, folder: str) -> list[str]:
        path = self._root / folder
        with explained("list", path):
            try:
                return sorted(os.listdir(path))
            except (FileNotFoundError, NotADirectoryError):
                return []

    def remove_tree(self, folder: str) -> None:
        path = self._root / folder
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
            return
        with explained("remove", path):
            path.unlink(missing_ok=True)

    def remove_if_empty(self, folder: str) -> None:
        try:
            (self._root / folder).rmdir()
        except OSError:
            return  # it is not empty, or gone already


class _Far:
    """A folder that fsspec reaches."""

    commits_by_rename = False

    def __init__(self, store: FsspecStore) -> None:
        self._remote = store._remote

    @property
    def is_exclusive(self) -> bool:
        return self._remote.url.partition("://")[0].lower() in _EXCLUSIVE

    def create(self, name: str, data: bytes) -> bool:
        return self._remote.create(name, data)

    def walk(self, folder: str) -> dict[str, FoundFile]:
        fs, path = self._remote._fs, self._remote._path(folder)
        with self._remote.explained("list", folder):
            fs.invalidate_cache()
            try:
                found: Mapping[str, Mapping[str, Any]] = fs.find(path, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return {}
        inside = {fs._strip_protocol(name).removeprefix(path + "/"): info for name, info in found.items()}
        return {
            name: FoundFile(int(info["size"] or 0), _modified(info))
            for name, info in inside.items()
            if not name.startswith(path)
        }

    def names(self, folder: str) -> list[str]:
        return self._remote.names(folder)

    def remove_tree(self, folder: str) -> None:
        if folder.startswith("checkpoints/"):
            self._remote.remove(f"{folder}/{MANIFEST}")  # first: what has one must be whole
        self._remote.remove_tree(folder)
        self._remote.remove(folder)

    def remove_if_empty(self, folder: str) -> None:
        if not self._remote._is_tree:
            return
        try:
            self._remote._fs.rmdir(self._remote._path(folder))
        except Exception:  # each file system has exceptions of its own for a folder that is not empty, or gone
            return


def _walk(folder: Path, inside: str) -> Iterator[tuple[str, FoundFile]]:
    try:
        entries: Sequence[os.DirEntry[str]] = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(folder / entry.name, f"{inside}{entry.name}/")
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        yield inside + entry.name, FoundFile(status.st_size, status.st_mtime)


def _modified(info: Mapping[str, Any]) -> float | None:
    for key in _MODIFIED:
        value = info.get(key)
        if isinstance(value, str):
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                continue
        if isinstance(value, datetime):
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        if isinstance(value, (int, float)) and value > 0:
            return value / 1000 if value > 1e11 else float(value)  # Hadoop counts milliseconds
    return None
