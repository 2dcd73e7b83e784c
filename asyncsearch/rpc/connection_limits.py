"""How many connections the driver's server holds, so that strangers leave it descriptors for its own work.

Rule 1: pure; what the machine allows is an argument.
"""

from __future__ import annotations

import msgspec

_RESERVE = 128
"""Descriptors kept for the store, the journal, Spark and the user's own code."""
_RESERVE_PER_WORKER = 4
"""Descriptors kept for each launch of a process: its pipes and the files of its output."""
_PER_WORKER = 2
"""Connections of one worker: a lost one is known to be lost only some seconds after the next one is made."""
_SPARE = 16
_PORTS = 2
_MOST_STRANGERS = 1_024
"""Most connections that have not proved anything yet: each costs about 40 kB until its handshake times out."""


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """ConnectionLimits of one server."""

    connections: int = _MOST_STRANGERS + _SPARE
    """On each of the two ports; above them, a connection is closed as soon as it is accepted."""
    greetings: int = _SPARE
    """Streams of one address that have the token, and whose ``Hello`` is still awaited; executors may share it."""
    handshake_s: float = 10.0
    """Time that a connection has to prove that it is a worker's: three crossings of a network that may be slow."""


def connection_limits(workers: int, descriptors: int | None, in_use: int) -> ConnectionLimits:
    """Return the limits of a server.

    Args:
        workers: how many workers a run has at once.
        descriptors: how many this process may have open; None: any number.
        in_use: how many it has open now.
    """
    needed = _PER_WORKER * workers + _SPARE
    most = needed + _MOST_STRANGERS
    if descriptors is not None:
        room = descriptors - in_use - _RESERVE - _RESERVE_PER_WORKER * workers
        # With fewer descriptors than workers need, the search still begins: it may get by with less than the reserve.
        most = max(needed, min(most, room // _PORTS))
    return ConnectionLimits(connections=most, greetings=needed)
