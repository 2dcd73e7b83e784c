"""Prevents orphans: when the agent dies, however it dies, all processes of the runner's group die too."""

from __future__ import annotations

import os
import select
import signal
import threading


def end_with_agent(lifeline: int, parent: int) -> None:
    """Bind the life of this process group to the agent's.

    Args:
        lifeline: read end of a pipe whose write end only the agent holds.
        parent: process id of this one's parent: the agent, or what forks runners for it.
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
