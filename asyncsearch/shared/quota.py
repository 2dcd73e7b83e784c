"""The quota of a shared folder, enforced at the end of a run."""

from __future__ import annotations

from asyncsearch.shared.folder import SharedFolder
from asyncsearch.store.base_store import Store
from asyncsearch.store.layout import is_name

EVALUATIONS = "evals"
"""Folder in a study's store for the searches that ``Study.eval`` made, each a study in the shared folder."""


def keep_within(folder: SharedFolder, quota_bytes: int, home: Store) -> list[str]:
    """Delete unneeded checkpoints until the total is within a quota, and return a warning if it stays above.

    If there is no room, the checkpoints that the study's evaluations keep for later ones are deleted too. Afterwards
    the driver is no longer registered in the folder.

    Args:
        folder: the shared folder.
        quota_bytes: maximum total size of its checkpoints, in bytes.
        home: the study's own store.
    """
    try:
        folder.evict(quota_bytes)
        if _total(folder) > quota_bytes and _give_up_evaluations(folder, home):
            folder.evict(quota_bytes)
        total = _total(folder)
    finally:
        folder.close()
    if total <= quota_bytes:
        return []
    words = (
        f"The checkpoints in {folder.store.shown!r} take {total:,} bytes, more than quota_bytes={quota_bytes:,}:"
        " studies that are still there need them. Delete the stores of those that you are done with, or raise "
        "Sharing(quota_bytes=...)."
    )
    return [words]


def _total(folder: SharedFolder) -> int:
    return sum(folder.usage().values())


def _give_up_evaluations(folder: SharedFolder, home: Store) -> bool:
    """Release the holds of evaluations that are not running; return whether there were any."""
    inner = f"{home.shown}/"
    held = [hold.study for hold in folder.current_holds().holds.values()]
    names = [study for study in held if study.startswith(f"{inner}{EVALUATIONS}/")]
    inside = {name: name.removeprefix(inner) for name in names}
    over = [name for name, place in inside.items() if is_name(place) and not home.child(place).is_locked()]
    for name in over:
        folder.let_go(name)
    return bool(over)
