"""Knows of a process whether it was forked from one in which gRPC ran: its threads are gone, and any use aborts it."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from asyncsearch.errors import UsageError

_THREADS = ("grpc_global_tim", "event_engine")
"""Names of the threads that gRPC has while anything of it is open."""


class _Fork:
    """The state of gRPC at the fork that made this process."""

    def __init__(self) -> None:
        self.is_broken = False
        """Whether gRPC was running at it."""
        self._was_running = False

    def before(self) -> None:
        self._was_running = self.is_broken or ("grpc" in sys.modules and _is_running())

    def in_child(self) -> None:
        self.is_broken = self._was_running


_mine = _Fork()


def require_no_fork_with_grpc() -> None:
    """Check that gRPC can be used in this process.

    Raises:
        UsageError: the process was forked from one in which it ran.
    """
    if _mine.is_broken:
        raise UsageError(
            "This process was forked from one that has run a search, or uses gRPC otherwise, which does not survive a "
            'fork: start it by "spawn", as in ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")), or '
            'search in it by Study(..., backend="inline").'
        )


def _is_running() -> bool:
    names: set[str] = set()
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:
        return True  # not Linux: nobody knows
    for thread in threads:
        with contextlib.suppress(OSError):  # it has just ended
            names.add(Path(f"/proc/self/task/{thread}/comm").read_text().strip())
    return any(name in names for name in _THREADS)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_mine.before, after_in_child=_mine.in_child)
