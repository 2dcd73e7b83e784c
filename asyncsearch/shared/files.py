"""The files of a shared folder: small JSON that a person can read.

Every file has a ``format``. A file of a newer format is refused, since its meaning is unknown; a damaged file counts as
absent, and is logged once. Each ends with its own name (``at``) and a checksum of all before it (``sum``), so that one
that was renamed, copied, exchanged with another or changed is found. Those of earlier versions have neither.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import defaultdict
from typing import Any, NamedTuple, TypeVar

import msgspec

from asyncsearch.errors import NotAFileError, StoreError
from asyncsearch.files import decoded
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.store.base_store import FileInfo, Store
from asyncsearch.store.layout import MANIFEST, Version, is_name, is_node, parse_versions

FORMAT = 1
"""Version of the format of all files in a shared folder."""

logger = logging.getLogger(__name__)


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of the contents of all files."""

    format: int = FORMAT


_WRITTEN = msgspec.json.Decoder(Written)
_ANY = msgspec.json.Decoder()
_AT, _SUM = "at", "sum"


class Unreadable(NamedTuple):
    """A file that exists but cannot be decoded."""

    name: str


W = TypeVar("W", bound=Written)


class SharedFiles:
    """Typed small files in one store. Safe from any thread."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._warned: set[str] = set()
        self._guard = threading.Lock()

    def look(self, name: str, kind: msgspec.json.Decoder[W]) -> W | Unreadable | None:
        """Return a file's content, ``Unreadable`` if it is damaged, or None if there is no such file.

        Raises:
            StoreError: the file was written by a newer version.
        """
        data = self.content(name)
        if data is None:
            return None
        written = decoded(_WRITTEN, data)
        if written is not None and written.format > FORMAT and is_as_written(name, data):
            raise StoreError(
                f"{name!r} in the shared folder {self.store.shown!r} has format {written.format}, and this version of"
                f" asyncsearch knows formats up to {FORMAT}: another study there runs a newer version. Update"
                " asyncsearch here, or give this study another folder: Sharing(shared=...)."
            )
        found = decoded(kind, data) if is_as_written(name, data) else None
        return Unreadable(name) if found is None else found

    def content(self, name: str) -> bytes | None:
        """Return the content of a file. Empty if something else lies in its place, None if nothing does."""
        if not is_name(name):
            return b""  # planted: no file of this folder is called so
        try:
            return self.store.read(name)
        except NotAFileError:
            return b""

    def read(self, name: str, kind: msgspec.json.Decoder[W]) -> W | None:
        """Return a file's content, or None if it is missing or damaged; damage is logged once."""
        found = self.look(name, kind)
        if isinstance(found, Unreadable):
            self.warn_damaged(name)
            return None
        return found

    def write(self, name: str, value: Written) -> None:
        """Write a file atomically, also where something else lies in its place."""
        self.put(name, encode(value, name))

    def put(self, name: str, data: bytes) -> None:
        """Write the bytes that ``encode`` made; see ``write``."""
        try:
            self.store.write(name, data)
        except NotAFileError:  # a folder, which no file replaces; it counts as absent
            self.store.remove_tree(name)
            self.store.write(name, data)

    def create(self, name: str, value: Written) -> bool:
        """Write a file that does not exist yet; return False if it does."""
        return self.store.create(name, encode(value, name))

    def warn_damaged(self, name: str) -> None:
        """Log once that a file is damaged."""
        self.warn_once(name, f"{name!r} in the shared folder {self.store.shown!r} is damaged and counts as absent.")

    def warn_once(self, about: str, message: str) -> None:
        """Log a warning, once for each value of ``about``."""
        with self._guard:
            if about in self._warned:
                return
            self._warned.add(about)
        logger.warning("%s", message)


def encode(value: Written, name: str) -> bytes:
    """Return a file's content, indented for people, bound to the name of the file."""
    content = msgspec.to_builtins(value, str_keys=True) | {_AT: name}
    return msgspec.json.format(msgspec.json.encode(content | {_SUM: _sum_of(content)}), indent=2) + b"\n"


def is_as_written(name: str, data: bytes) -> bool:
    """Return whether a file has the content that was written under its name, as far as it says."""
    content = decoded(_ANY, data)
    if not isinstance(content, dict):
        return False
    if _AT not in content and _SUM not in content:
        return True  # of an earlier version
    checksum = content.pop(_SUM, None)
    return content.get(_AT) == name and checksum == _sum_of(content)


def _sum_of(content: dict[str, Any]) -> str:
    return hashlib.blake2b(msgspec.json.encode(content), digest_size=16).hexdigest()


class Survey(NamedTuple):
    """Sizes and times of checkpoints."""

    committed: dict[CheckpointRef, FileInfo]
    """Total size of all committed versions of each, and the time of the newest."""
    replaced: dict[str, FileInfo]
    """Committed versions that newer ones have replaced, by folder."""
    unfinished: dict[str, FileInfo]
    """Versions that were not, or not yet, committed, by folder."""


def survey(store: Store) -> Survey:
    """List every file of every checkpoint."""
    folders: dict[tuple[str, Version], FileInfo] = {}
    whole: dict[tuple[str, int], list[Version]] = defaultdict(list)
    for name, entry in store.walk("checkpoints").items():
        node, _, rest = name.partition("/")
        folder, _, inside = rest.partition("/")
        for version in parse_versions([folder] if inside and is_node(node) else []):
            folders[node, version] = _both(folders.get((node, version)), entry)
            if inside == MANIFEST:
                whole[node, version.resource].append(version)
    found = Survey({}, {}, {})
    for (node, version), entry in sorted(folders.items()):
        ref, name = CheckpointRef(NodeKey(node), version.resource), f"checkpoints/{node}/{version}"
        versions = whole[node, version.resource]
        if version not in versions:
            found.unfinished[name] = entry
            continue
        found.committed[ref] = _both(found.committed.get(ref), entry)
        if version != max(versions):
            found.replaced[name] = entry
    return found


def _both(one: FileInfo | None, two: FileInfo) -> FileInfo:
    """Return the total size of two files or folders, and the later time."""
    if one is None:
        return two
    times = [entry.modified_s for entry in (one, two) if entry.modified_s is not None]
    return FileInfo(one.size_bytes + two.size_bytes, max(times, default=None))
