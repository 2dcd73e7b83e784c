"""Forks a process that leads a session of its own by the time its parent knows it."""

from __future__ import annotations

import os


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
            os.setsid()
        else:
            os.close(writing)
            os.read(reading, 1)  # until the child has closed its end, or has ended
            writing = -1
        return pid
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)
