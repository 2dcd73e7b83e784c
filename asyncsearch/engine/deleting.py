"""Decides which checkpoints are deleted: the unreachable ones, and those beyond the quota. Pure.

References are counted by ``StudyState``; ``plan.retention`` chooses among finished trials.
"""

from __future__ import annotations

from asyncsearch.actions import DeleteCheckpoint
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.stopping import Emit


def delete_unreachable(state: StudyState, emit: Emit) -> None:
    """Delete the checkpoints from which no trial and no attempt would continue."""
    while state.unreachable:
        emit(DeleteCheckpoint(next(iter(state.unreachable))))


def delete_beyond_quota(state: StudyState, emit: Emit) -> None:
    """Let finished trials give up their checkpoints, the worst first, until the rest fit into the quota of bytes."""
    while state.usage.is_over and (spared := state.spare()) is not None:
        emit(DeleteCheckpoint(spared))
