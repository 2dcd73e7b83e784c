"""Ends whatever the processes below this one have left behind, also what has called ``setsid``. Linux only.

The kernel gives a process whose parent has ended to the nearest ancestor that adopts orphans, else to that of the whole
machine, where nobody knows any more whose it was.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Container
from pathlib import Path

_LIST = "/proc/{0}/task/{0}/children"
_PATIENCE_MS = 5_000
"""Time for which a killed process is waited for: one that hangs in the kernel ends when it can."""
_ROUNDS = 1_000
"""Maximum depth of a tree of processes that is ended: one that grows faster than it is killed never ends."""


def adopt_orphans() -> None:
    """Let this process adopt its descendants whose parents end; nothing happens where that cannot be had."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        pr_set_child_subreaper = 36
        ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def reap_ended(besides: Container[int]) -> None:
    """Reap the children that have ended, except some: otherwise each keeps its process id."""
    for pid in (pid for pid in _children() if pid not in besides):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def kill_children() -> None:
    """Kill all children, then the orphans that come from them, until there are none."""
    hanging = set[int]()
    for _ in range(_ROUNDS):
        pids = [pid for pid in _children() if pid not in hanging]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # another user's, by setuid
                os.kill(pid, signal.SIGKILL)
        if not pids:
            return
        hanging.update(pid for pid in pids if not _reap(pid))


def _reap(pid: int) -> bool:
    """Wait for the end of a killed child, and return whether it came."""
    try:
        end = os.pidfd_open(pid)
        try:
            poll = select.poll()
            poll.register(end, select.POLLIN)
            if not poll.poll(_PATIENCE_MS):
                return False
        finally:
            os.close(end)
        os.waitpid(pid, os.WNOHANG)
    except (ProcessLookupError, ChildProcessError):
        pass
    return True


def _children() -> list[int]:
    """Return the living and the unreaped children of this process, which has one thread."""
    mine = os.getpid()
    try:
        return [int(pid) for pid in Path(_LIST.format(mine)).read_text().split()]
    except OSError:  # a kernel without that list
        names = [name for name in os.listdir("/proc") if name.isdigit()]
        return [int(name) for name in names if _parent(name) == mine]


def _parent(name: str) -> int | None:
    try:
        status = Path(f"/proc/{name}/stat").read_text()
    except OSError:
        return None
    return int(status.rpartition(")")[2].split()[1])  # behind the name, in which anything may be
