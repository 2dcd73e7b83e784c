"""What a process has of descriptors; launches that fail for want of them, or of processes, are tried again."""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable
from typing import TypeVar

_log = logging.getLogger(__name__)
T = TypeVar("T")

_SCARCE = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
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
    """Call ``launch``, again while the machine lacks descriptors, and return what it returns.

    Args:
        is_called_off: waits for so many seconds, or until the launch is not wanted any more, and returns whether.
        name: of the worker, for the log.

    Raises:
        Exception: what ``launch`` raised, if waiting cannot help, did not, or was called off.
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
