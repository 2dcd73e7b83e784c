"""When a driver closes a segment of its journal, so that others can read it, and goes on in the next. Pure.

HDFS shows what is in a file once it is closed, and each takes its place at the NameNode. So others see a search with a
delay of a twentieth of its time, and a search of ten hours has some hundred segments.
"""

from __future__ import annotations

SHORTEST_S = 5.0
_SHARE = 0.05
MOST_BYTES = 16 << 20
"""A segment is kept in memory until it is closed, for who reads it in the driver's own process."""


def pause_s(elapsed_s: float) -> float:
    """Return how long the next segment stays open, where the journal was first opened so long ago."""
    return max(SHORTEST_S, _SHARE * elapsed_s)
