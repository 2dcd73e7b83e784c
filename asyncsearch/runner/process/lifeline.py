"""Prevents orphans: when the agent dies, however it dies, all processes of the runner's group die too.

What has left the group by ``setsid`` is adopted and ended by the template. The kernel gives a process whose parent has
ended to the nearest ancestor that adopts orphans, else to that of the whole machine, where nobody knows any more whose
it was.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Container, Iterable
from pathlib import Path


def end_with_agent(lifeline: int, parent: int) -> None:
    """Bind the life of this process group to the agent's.

    Args:
        lifeline: read end of a pipe whose write end only the agent holds.
        parent: process id of this one's parent: the agent, or the template that forks runners for it.
    """
    if not _kill_group_at_hangup(lifeline):
        threading.Thread(target=_watch, args=(lifeline,), daemon=True, name="lifeline").start()
    if os.getppid() != parent or _is_broken(lifeline):  # the agent died before the lines above took effect
        os._exit(1)


def _kill_group_at_hangup(lifeline: int) -> bool:
    """Let the kernel kill the group when the pipe breaks, on Linux, even while the interpreter is busy.

    Not PR_SET_PDEATHSIG: that kills only the runner, as soon as one thread of the agent ends and so before the pipe
    breaks; the runner's children would continue and hold the device.
    """
    try:
        import fcntl

        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)  # type: ignore[attr-defined,unused-ignore]
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)  # type: ignore[attr-defined,unused-ignore]
    except (ImportError, AttributeError, OSError):
        return False
    return True


def _is_broken(lifeline: int) -> bool:
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    return bool(poll.poll(0))


def _watch(lifeline: int) -> None:
    while os.read(lifeline, 1):
        pass
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def fork_in_session() -> int:
    """Fork like ``os.fork``; the child leads a session, and so a process group, before this returns in the parent.

    Otherwise a parent that kills the group at once would find no group, and the child would live on.

    Raises:
        OSError: there can be no further process.
    """
    reading, writing = os.pipe()
    try:
        pid = os.fork()
        if pid == 0:
            os.setsid()  # and then closes its end of the pipe, below, by which the parent knows that there is a group
        else:
            os.close(writing)
            os.read(reading, 1)  # until the child has closed its end, or has ended
            writing = -1
        return pid
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)


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


def reap_ended(besides: Container[int]) -> set[int]:
    """Reap the children that have ended, except some, and return them: otherwise each keeps its process id."""
    ended = set[int]()
    for pid in (pid for pid in _children() if pid not in besides):
        with contextlib.suppress(ChildProcessError):
            ended.add(os.waitpid(pid, os.WNOHANG)[0])
    return ended


def kill_children(besides: Iterable[int] = ()) -> None:
    """Kill all children, except some, then the orphans that come from them, until there are none."""
    hanging = set(besides)
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
