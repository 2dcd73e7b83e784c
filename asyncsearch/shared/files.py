"""The files of a shared folder: small JSON that a person can read.

Every file has a ``format``. A file of a newer format is refused, since its meaning is unknown; a damaged file counts as
absent, and is logged once.
"""

from __future__ import annotations

import logging
import threading
from typing import NamedTuple, TypeVar

import msgspec

from asyncsearch.errors import StoreError
from asyncsearch.store.base_store import Store

FORMAT = 1
"""Version of the format of all files in a shared folder."""

logger = logging.getLogger(__name__)


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of the contents of all files."""

    format: int = FORMAT


_WRITTEN = msgspec.json.Decoder(Written)


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
        """Return a file's content, or None if it is missing or damaged; damage is logged once."""
        found = self.look(name, kind)
        if isinstance(found, Unreadable):
            self.warn_once(name, f"{name!r} in the shared folder {self.store.shown!r} is damaged and counts as absent.")
            return None
        return found

    def write(self, name: str, value: Written) -> None:
        """Write a file atomically."""
        self.store.write(name, encode(value))

    def create(self, name: str, value: Written) -> bool:
        """Write a file that does not exist yet; return False if it does."""
        return self.store.create(name, encode(value))

    def warn_once(self, about: str, message: str) -> None:
        """Log a warning, once for each value of ``about``."""
        with self._guard:
            if about in self._warned:
                return
            self._warned.add(about)
        logger.warning("%s", message)


def encode(value: Written) -> bytes:
    """Return a file's content, indented for people."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
