"""Scarce descriptors and processes: a run that needs too many is refused, and launches that fail are tried again."""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable
from typing import TypeVar

from asyncsearch.errors import UsageError

_log = logging.getLogger(__name__)
T = TypeVar("T")

_SCARCE = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
_RUN, _CHILD = 30, 4
"""Descriptors that a run takes, and each of its processes on this machine: measured were 26 and 4, on a disk."""
_FIRST_S, _LONGEST_S = 0.1, 5.0
PATIENCE_S = 300.0
"""Time after which the launch counts as failed."""


def descriptors() -> tuple[int | None, int]:
    """Return how many descriptors this process may have open (None: any number), and how many it has."""
    try:
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return None if most == resource.RLIM_INFINITY else most, len(os.listdir("/dev/fd"))
    except (ImportError, OSError):  # another system than Unix
        return None, 0


def require_descriptors(workers: int, *, are_processes_here: bool) -> None:
    """Check that this process may open the descriptors that a run takes, which would otherwise break down anywhere.

    Args:
        workers: how many it has at once.
        are_processes_here: whether they are children of this process, rather than on a cluster.

    Raises:
        UsageError: the limit on open files is too low.
    """
    most, in_use = descriptors()
    needed = in_use + _RUN + workers * (_CHILD if are_processes_here else 1)
    if most is not None and needed > most:
        wanted = max(256, 1 << needed.bit_length())
        raise UsageError(
            f"This process may have {most} files open and has {in_use}, and with a run of {workers} "
            f"{'worker' if workers == 1 else 'workers'} it has about {needed}: set a higher limit before you start it, "
            f"`ulimit -n {wanted}` in the shell{'' if workers == 1 else ', or take fewer workers, parallelism=1'}."
        )


def is_scarcity(error: BaseException | None) -> bool:
    """Return whether an error, or one that caused it, says that descriptors, processes or memory ran out."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _SCARCE:
            return True
        error = error.__cause__ or error.__context__
    return False


def patiently(
    launch: Callable[[], T],
    is_called_off: Callable[[float], object],
    name: str,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """Call ``launch``, again while the machine lacks descriptors, and return its result.

    Args:
        is_called_off: waits for so many seconds, or until the launch is not wanted any more, and returns whether.
        name: of the worker, for the log.

    Raises:
        Exception: by ``launch``, if waiting cannot help, did not, or was called off.
    """
    delay_s, give_up_s = _FIRST_S, clock() + PATIENCE_S
    while True:
        try:
            return launch()
        except Exception as error:
            if not is_scarcity(error) or clock() + delay_s > give_up_s:
                raise
            if delay_s == _FIRST_S:
                _log.warning("%s cannot be started yet, and is tried again: %s", name, error)
            if is_called_off(delay_s):
                raise
        delay_s = min(2 * delay_s, _LONGEST_S)
