"""The files of a store's checkpoints: their sizes and ages, and the files that belong to no commit."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.store.base_store import FileInfo, Store
from asyncsearch.store.layout import MANIFEST, Version, is_node, parse_versions


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
