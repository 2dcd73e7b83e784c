"""No orphans: when the agent dies, however it dies, its runner and all processes of the runner's group die too."""

from __future__ import annotations

import os
import signal
import threading


def end_with_agent(lifeline: int, parent: int) -> None:
    """Bind the life of this process group to the agent's.

    Args:
        lifeline: reading end of a pipe whose other end only the agent holds.
        parent: process id of the agent.
    """
    if not _kill_group_at_hangup(lifeline):
        threading.Thread(target=_watch, args=(lifeline,), daemon=True, name="lifeline").start()
    if os.getppid() != parent:  # it died before the above was set
        os._exit(1)


def _kill_group_at_hangup(lifeline: int) -> bool:
    """Let the kernel kill the group when the pipe breaks, on Linux; it does not wait for a busy interpreter.

    Not PR_SET_PDEATHSIG: that kills the runner alone, as soon as one thread of the agent is gone and so before the pipe
    breaks; what the runner had started would go on and hold the device.
    """
    try:
        import fcntl

        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)  # type: ignore[attr-defined,unused-ignore]
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)  # type: ignore[attr-defined,unused-ignore]
    except (ImportError, AttributeError, OSError):
        return False
    return True


def _watch(lifeline: int) -> None:
    while os.read(lifeline, 1):
        pass
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)
