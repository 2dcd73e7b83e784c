"""A store on any file system of fsspec: object stores, SFTP, or memory for tests.

These file systems have no common rename or append; see asyncsearch.store.far.store and appending_store for what holds
on all of them. A small file is replaced atomically on object stores, SFTP and disks. On file systems whose rename
refuses to replace (SMB, FTP) it is missing for a moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asyncsearch.store.base_store import Store
from asyncsearch.store.far.remote import Remote
from asyncsearch.store.far.store import AppendingStore
from asyncsearch.store.passwords import with_user_alone, without_keys


class FsspecStore(AppendingStore):
    """One study's folder at an fsspec URL. It pickles its URL and options; each process makes its own connections.

    Args:
        url: such as ``s3://bucket/studies/digits``.
        storage_options: options of fsspec's file system, such as keys and endpoints. They are sent to the workers; keys
            are written nowhere.
        lock_lease_s: seconds without a refresh after which a driver on another machine loses its lock.
    """

    _remote: Remote

    def __init__(
        self, url: str, storage_options: Mapping[str, Any] | None = None, *, lock_lease_s: float = 60.0
    ) -> None:
        super().__init__(lock_lease_s)
        self._remote = Remote(url, storage_options or {})

    def at(self, url: str) -> Store:
        return FsspecStore(url, self._remote.options, lock_lease_s=self._lease_s)

    def without_keys(self) -> Store:
        url, options = with_user_alone(self._remote.url), without_keys(self._remote.options)
        kept = FsspecStore(url, options, lock_lease_s=self._lease_s)
        kept._remote.lacks_keys = (url, options) != (self._remote.url, self._remote.options)
        return kept

    def with_keys_of(self, other: Store) -> Store:
        mine, its = (_server(store.url) for store in (self, other))
        if not isinstance(other, FsspecStore) or with_user_alone(mine) != with_user_alone(its):
            return self
        return other.at(its + self.url.removeprefix(mine))


def _server(url: str) -> str:
    """Return a URL without its path: ``sftp://ann:secret@host``."""
    protocol, separator, rest = url.partition("://")
    return f"{protocol}{separator}{rest.partition('/')[0]}"
