"""adlfs, with what a store needs of it: names as they are written, and errors that are not taken for "nothing there".

By itself adlfs parses each path as a URL and cuts it off at a ``#``, lists by beginnings of names in place of folders,
and says that there is no file where the server did not answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from adlfs import AzureBlobFileSystem
from azure.core.exceptions import ResourceNotFoundError
from fsspec.asyn import sync_wrapper

_FOLDER_MARKS = ("hdi_isfolder", "Hdi_isfolder", "is_directory")
"""In the metadata of a blob that stands for a folder; accounts with a hierarchical namespace have such blobs."""


_PATIENCE = {"initial_backoff": 0.5, "increment_base": 2, "random_jitter_range": 0.5}
"""Seconds between the tries of a call that no server answers: it fails within some seconds, before the lease of a lock
ends, and who calls knows how long to wait. By itself the client tries for 90 s."""


class AzureBlobs(AzureBlobFileSystem):  # type: ignore[misc]
    """The blobs of an account; an error of the server is raised as the error that it is."""

    def do_connect(self) -> None:
        """Connect, with less patience."""
        super().do_connect()
        for policy in self.service_client._pipeline._impl_policies:
            if hasattr(policy, "initial_backoff"):
                policy.__dict__.update(_PATIENCE)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        return AzureBlobFileSystem._strip_protocol(path) if "://" in path else path.strip("/")

    async def _isfile(self, path: str) -> bool:
        container, name, _ = self.split_path(path)
        if not name:
            return False
        try:
            async with self.service_client.get_blob_client(container, name) as blob:
                return not _is_folder(await blob.get_blob_properties())
        except ResourceNotFoundError:
            return False

    async def _ls(self, path: str, detail: bool = False, **_: Any) -> list[Any]:
        container, name, _version = self.split_path(path)
        start = f"{name}/" if name else ""
        async with self._blobs_of(container) as blobs:
            found = [entry async for entry in _unless_missing(blobs.walk_blobs(name_starts_with=start))]
        entries = [_entry(container, one) for one in found if one.name != start]
        return entries if detail else sorted({str(entry["name"]) for entry in entries})

    async def _find(self, path: str, withdirs: bool = False, prefix: str = "", **options: Any) -> Any:
        container, name, _ = self.split_path(path)
        start = f"{name}/{prefix}" if name else prefix
        async with self._blobs_of(container) as blobs:
            listing = blobs.list_blobs(name_starts_with=start, include=["metadata"])
            found = [one async for one in _unless_missing(listing) if withdirs or not _is_folder(one)]
        entries = {f"{container}/{one.name}": _entry(container, one) for one in found}
        return entries if options.get("detail") else sorted(entries)

    def _blobs_of(self, container: str) -> Any:
        return self.service_client.get_container_client(container=container)

    isfile = sync_wrapper(_isfile)


async def _unless_missing(listing: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Yield the entries of a listing; none where the container does not exist."""
    try:
        async for entry in listing:
            yield entry
    except ResourceNotFoundError:
        return


def _entry(container: str, found: Any) -> Mapping[str, Any]:
    name = f"{container}/{found.name}"
    if name.endswith("/") or _is_folder(found):
        return {"name": name.rstrip("/"), "size": None, "type": "directory"}
    return {"name": name, "size": found.size, "type": "file", "last_modified": found.last_modified}


def _is_folder(blob: Any) -> bool:
    return any((blob.metadata or {}).get(mark) == "true" for mark in _FOLDER_MARKS)
