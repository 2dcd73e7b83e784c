"""The connections of this process with other ranks, which outlive a training: closed when the process trains again."""

from __future__ import annotations

from asyncsearch.errors import RankLostError
from asyncsearch.trainable.gang import RankConnection

_open: list[RankConnection] = []


def keep(connection: RankConnection) -> None:
    """Keep a connection until ``close_connections``."""
    _open.append(connection)


def close_connections() -> None:
    """Close the connections of the last training."""
    while _open:
        _open.pop().close()


def is_lost_rank(error: BaseException) -> bool:
    """Return whether an error says that another rank of the gang is gone, which is not this trial's doing."""
    return isinstance(error, RankLostError) or any(one.is_lost_rank(error) for one in _open)
