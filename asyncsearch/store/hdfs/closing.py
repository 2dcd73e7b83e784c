"""Closing a file without hdfs-native's wait: it asks the NameNode a second time only after half a second.

A NameNode refuses to close a file until a DataNode has reported the last block, which comes some milliseconds after the
writer's own request. hdfs-native then waits for 0.5, 1, 2 s. So, while it waits, the NameNode is asked here whether all
of the file can be read, and then closes it by its call for leases that were left; hdfs-native's next request finds the
file closed, which is no error.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from asyncsearch.store.hdfs import bounded

_log = logging.getLogger(__name__)
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 0.1


def close(writer_close: Callable[[], None], finish: Callable[[], bool]) -> None:
    """Close a file, and return when the NameNode has closed it; what is left of the first call ends in its thread.

    Args:
        writer_close: closes it, sooner or later.
        finish: closes it at the NameNode if all of it is there; returns whether it did.

    Raises:
        TimeoutError: it was not closed within ``bounded.ANSWER_S``.
    """
    closing = bounded.begin(writer_close)
    deadline = time.monotonic() + bounded.ANSWER_S
    pause_s = _FIRST_PAUSE_S
    while not closing.done.wait(pause_s) and time.monotonic() < deadline:
        try:
            if finish():
                return
        except Exception as error:  # whether it is closed is then for the first call to say
            _log.debug("Cannot finish a file: %s", error)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    closing.result_within(0.0)
