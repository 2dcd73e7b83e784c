"""Cleaning: remove unreachable files, and keep the files that a study may still need.

The complete list of removals is computed first, and then carried out or only reported, so a dry run agrees with a real
run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from asyncsearch.actions import DeleteCheckpoint
from asyncsearch.engine.affected import kept_for_later
from asyncsearch.errors import StoreError, StoreLockedError, StudyNotFoundError
from asyncsearch.events import CheckpointCommitted
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.journal.opening import STUDY_FILE, begin_reading, read_records, read_study_file
from asyncsearch.journal.reading import read_state
from asyncsearch.shared.files import Survey, survey
from asyncsearch.shared.folder import SHARED_FILE, SharedFolder, Stored, in_order_of_use
from asyncsearch.store.base_store import FileInfo, Store
from asyncsearch.store.layout import is_temporary, parse_versions

DAY_S = 86400.0


class Item(NamedTuple):
    """One removable file, folder or checkpoint."""

    kind: str
    """``checkpoint``, ``leftover``, ``claim``, ``driver`` or ``hold``."""
    name: str
    size_bytes: int
    why: str
    remove: Callable[[], bool | None]
    """Removes it; returns False if it is needed by now and stays."""


class Limits(NamedTuple):
    """Limits on the removal of unreachable checkpoints; without limits all are removed."""

    quota_bytes: int | None = None
    """Remove only until the total size of all checkpoints is within the quota."""
    older_than_s: float | None = None
    """Remove only checkpoints that have not been used for this long."""


class Cleaning(NamedTuple):
    """The result of cleaning, or of a dry run."""

    gone: list[Item]
    stayed: list[Item]
    """Items that became needed in the meantime."""
    kept: int
    """Number of checkpoints that stay."""
    kept_bytes: int
    for_later: int = 0
    """Number of those that only a later run of the study with more trials may load."""
    for_later_bytes: int = 0


def clean(
    store: Store,
    limits: Limits | None = None,
    *,
    dry_run: bool = False,
    notify: Callable[[Item], None] | None = None,
    roots: Sequence[str] = (),
) -> Cleaning:
    """Clean the store of a study, or a folder that studies share.

    Args:
        store: Either.
        limits: Which of the unreachable checkpoints are removed.
        dry_run: Change nothing, and return the items that would be removed.
        notify: Called with each item after its removal, or for each item of a dry run.
        roots: Of a shared folder: where else than beside it the stores of its studies lie, folders or URLs.

    Raises:
        StudyNotFoundError: the store is neither.
        StoreLockedError: a driver has the study open.
        StoreError: the store cannot be read or written.
    """
    limits = limits or Limits()
    with ExitStack() as stack:
        later: list[Stored] = []
        if store.read(SHARED_FILE) is not None:
            folder = SharedFolder(store, roots=roots)
            if not dry_run:
                stack.callback(folder.close)
            items, kept = _of_shared(folder, limits)
        else:
            _open(store, dry_run, stack)
            items, kept = _of_study(store, limits)
            later = _for_later(store, kept)
        gone: list[Item] = []
        stayed: list[Item] = []
        for item in items:
            is_gone = dry_run or item.remove() is not False
            (gone if is_gone else stayed).append(item)
            if is_gone and notify is not None:
                notify(item)
    back = [item.size_bytes for item in stayed if item.kind == "checkpoint"]
    later_bytes = sum(one.size_bytes for one in later)
    total_bytes = sum(one.size_bytes for one in kept) + sum(back)
    return Cleaning(gone, stayed, len(kept) + len(back), total_bytes, len(later), later_bytes)


def _open(store: Store, dry_run: bool, stack: ExitStack) -> None:
    if read_study_file(store) is None:
        raise StudyNotFoundError(
            f"{store.shown!r} holds neither a study ({STUDY_FILE}) nor what studies share ({SHARED_FILE}). Name the"
            " folder or URL of one of the two."
        )
    if not dry_run:
        stack.enter_context(store.lock())
    elif store.is_locked():
        raise StoreLockedError(
            f"A driver has the study at {store.shown!r} open, and it removes by itself what it does not need. Clean the"
            " store when the search has ended."
        )


# The store of a study


def _of_study(store: Store, limits: Limits) -> tuple[list[Item], list[Stored]]:
    found = survey(store)
    needed = _needed(store)
    stored = in_order_of_use(found, {})
    chosen = _choose(stored, lambda one: one.ref not in needed, limits)

    def delete(one: Stored) -> Item:
        why = "no trial can go on from it"
        return Item("checkpoint", str(one.ref), one.size_bytes, why, lambda: store.delete(one.ref))

    items = [delete(one) for one in chosen]
    items += _leftovers(store, found, {one.ref for one in chosen}, None)
    return items, [one for one in stored if one not in chosen]


def _for_later(store: Store, kept: Sequence[Stored]) -> list[Stored]:
    """Return which of the checkpoints of a search that is over only a run with more trials may load."""
    file = read_study_file(store)
    if file is None:
        return []
    state, _ = read_state(store, file)
    if state.run is not None or state.waiting:
        return []
    found = kept_for_later(state)
    return [one for one in kept if one.ref in found]


def _needed(store: Store) -> set[CheckpointRef]:
    """Return the checkpoints that the journal records as committed and not as deleted.

    Every record deletes the checkpoints that it makes unreachable, so the rest are the references of the study's own
    state (``StudyState.references``). That state is not available here: only the study's code knows how many of the
    best trials keep their checkpoints, and whether trials share.
    """
    needed: set[CheckpointRef] = set()
    reader = begin_reading(store)
    for record in read_records(store, reader=reader):
        if isinstance(record.event, CheckpointCommitted):
            needed.add(record.event.checkpoint)
        needed.difference_update(action.checkpoint for action in record.actions if isinstance(action, DeleteCheckpoint))
    if reader.unread:
        raise StoreError(
            f"What {store.shown!r} needs cannot be told yet: the driver that wrote {reader.unread} has died, and its"
            " journal is read in full under the lock only. Clean without --dry-run, or go on with the study first:"
            f" Study.resume({store.shown!r})."
        )
    return needed


def _choose(stored: list[Stored], may_go: Callable[[Stored], bool], limits: Limits) -> list[Stored]:
    """Return the checkpoints to remove, in the order of their removal."""
    total = sum(one.size_bytes for one in stored)
    before_s = time.time() - (limits.older_than_s or 0.0)
    chosen: list[Stored] = []
    for one in stored:
        if limits.quota_bytes is not None and total <= limits.quota_bytes:
            break
        if (limits.older_than_s is None or one.used_s < before_s) and may_go(one):
            chosen.append(one)
            total -= one.size_bytes
    return chosen


def _leftovers(store: Store, found: Survey, gone: set[CheckpointRef], age_s: float | None) -> Iterator[Item]:
    """Yield leftovers of crashed writers older than ``age_s``, so that no live writer has them. None means all."""

    def item(name: str, entry: FileInfo, why: str) -> Item:
        return Item("leftover", name, entry.size_bytes, why, lambda: store.remove_tree(name))

    def is_old(entry: FileInfo) -> bool:
        return age_s is None or (entry.modified_s is not None and time.time() - entry.modified_s > age_s)

    sizes: dict[str, FileInfo] = {} if age_s is not None else dict.fromkeys(store.list("tmp"), FileInfo(0, None))
    for name, entry in store.walk("tmp").items():
        top = name.partition("/")[0]
        size, modified_s = sizes.get(top, FileInfo(0, None))
        sizes[top] = FileInfo(size + entry.size_bytes, max(modified_s or 0.0, entry.modified_s or 0.0) or None)
    for top, entry in sorted(sizes.items()):
        if not is_temporary(top):
            continue
        if top.startswith("removed-") or is_old(entry):
            yield item(f"tmp/{top}", entry, "left by a process that did not come to its end")
    for name, entry in sorted(found.unfinished.items()):
        if is_old(entry):
            yield item(name, entry, "a checkpoint that was never committed")
    for name, entry in sorted(found.replaced.items()):
        if is_old(entry) and _reference(name) not in gone:
            yield item(name, entry, "replaced by a newer version")


def _reference(name: str) -> CheckpointRef:
    _, node, folder = name.split("/")
    (version,) = parse_versions([folder])
    return CheckpointRef(NodeKey(node), version.resource)


# A folder that studies share


def _of_shared(folder: SharedFolder, limits: Limits) -> tuple[list[Item], list[Stored]]:
    current = folder.current_holds()
    stored = folder.stored()
    sizes = {one.ref: one for one in stored}
    abandoned = folder.abandoned()
    begun = [ref for ref, _ in abandoned if not folder.needed(ref, current)]
    rest = [one for one in stored if one.ref not in begun]
    chosen = _choose(rest, lambda one: not folder.needed(one.ref, current), limits)
    gone = {*begun, *(one.ref for one in chosen)}

    def finish(ref: CheckpointRef, name: str) -> Item:
        if ref not in begun:
            why = "the checkpoint is needed again"
            return Item("leftover", name, 0, why, lambda: folder.finish_one(ref, name) or None)
        size = sizes[ref].size_bytes if ref in sizes else 0
        return Item("checkpoint", str(ref), size, "its deletion was begun", lambda: folder.finish_one(ref, name))

    def delete(one: Stored) -> Item:
        why = f"no study holds it{_since(one.used_s)}"
        return Item("checkpoint", str(one.ref), one.size_bytes, why, lambda: folder.delete(one.ref))

    items = [finish(ref, name) for ref, name in abandoned]
    items += _leftovers(folder.store, survey(folder.store), gone, DAY_S)
    items += _small_files(folder, "hold", current.gone)
    items += _small_files(folder, "claim", folder.claims.expired(DAY_S))
    items += [delete(one) for one in chosen]
    return items, [one for one in stored if one.ref not in gone]


def _small_files(folder: SharedFolder, kind: str, names: dict[str, str]) -> Iterator[Item]:
    for name, why in names.items():
        data = folder.files.content(name)
        if data is None:
            continue

        def remove(name: str = name, data: bytes = data) -> bool:
            if folder.files.content(name) != data:
                return False  # its owner has returned
            folder.store.remove_tree(name)  # something else than a file may lie in its place
            folder.store.remove_if_empty(name.rpartition("/")[0])
            return True

        yield Item("driver" if name.startswith("drivers/") else kind, name, len(data), why, remove)


def _since(used_s: float) -> str:
    days = (time.time() - used_s) / DAY_S
    return f", and none has for {days:.0f} days" if used_s and days >= 1 else ""
