"""What the end of a run leaves in a folder that studies share."""

from __future__ import annotations

from asyncsearch.shared.folder import SharedFolder
from asyncsearch.store.base_store import Store

EVALUATIONS = "evals"
"""Folder in a study's store in which the searches live that ``Study.eval`` made, each a study in the shared folder."""


def keep_within(plan: SharedFolder, quota_bytes: int, home: Store) -> list[str]:
    """Remove what no study needs until all checkpoints together are within a quota, and say what stays beyond it.

    What the evaluations of the study keep for later ones is needed only as long as there is room. No sign of life is
    left behind.

    Args:
        plan: the shared folder.
        quota_bytes: bytes that its checkpoints may take together.
        home: the study's own store.
    """
    try:
        plan.evict(quota_bytes)
        if _total(plan) > quota_bytes and _give_up_evaluations(plan, home):
            plan.evict(quota_bytes)
        total = _total(plan)
    finally:
        plan.close()
    if total <= quota_bytes:
        return []
    words = (
        f"The checkpoints in {plan.store.shown!r} take {total:,} bytes, more than quota_bytes={quota_bytes:,}: studies "
        "that are still there need them. Delete the stores of those that you are done with, or raise "
        "Sharing(quota_bytes=...)."
    )
    return [words]


def _total(plan: SharedFolder) -> int:
    return sum(plan.usage().values())


def _give_up_evaluations(plan: SharedFolder, home: Store) -> bool:
    """Let go of what evaluations hold that do not run now; return whether there are such."""
    inner = f"{home.shown}/"
    held = [hold.study for hold in plan.standing().holds.values()]
    names = [study for study in held if study.startswith(f"{inner}{EVALUATIONS}/")]
    over = [name for name in names if not home.child(name.removeprefix(inner)).is_locked()]
    for name in over:
        plan.let_go(name)
    return bool(over)
