"""The ports of a server that does not listen yet, and how many connections it will hold on each.

Workers can be told the ports while gRPC is still imported. The limit leaves the driver descriptors for its own work,
however many strangers connect.
"""

from __future__ import annotations

import socket
import sys

import msgspec

from asyncsearch.errors import ClusterError

_SHARES_WITH_LISTENER = sys.platform == "linux"
"""Whether a port that is bound, and not listened on, can be bound again to listen on it."""


class Reservation:
    """Two ports that are bound and not listened on: whoever connects is refused at once, and nobody else gets them."""

    def __init__(self, host: str, port: int = 0) -> None:
        """Reserve a port and a spare one.

        Args:
            host: name or address of this machine; ``0.0.0.0`` for all its addresses.
            port: the first port; 0 for any free one.

        Raises:
            ClusterError: the port is taken, or the address is not one of this machine.
        """
        self._sockets: list[socket.socket] = []
        try:
            self.port = self._bind(host, port)
            self.spare_port = self._bind(host, 0)
        except OSError as error:
            self.close()
            raise cannot_listen(host, port, error) from None

    def before_listening(self) -> None:
        """Release the ports now where a server cannot bind them otherwise."""
        if not _SHARES_WITH_LISTENER:
            self.close()

    def close(self) -> None:
        """Release the ports; called once the server listens on them, or never will."""
        while self._sockets:
            self._sockets.pop().close()

    def _bind(self, host: str, port: int) -> int:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        self._sockets.append(bound)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # gRPC sets it too, and may then bind it as well
        bound.bind(address)
        return int(bound.getsockname()[1])


def cannot_listen(host: str, port: int, error: Exception) -> ClusterError:
    """Return the error of a driver that cannot listen on an address."""
    return ClusterError(
        f"The driver cannot listen at {host}:{port} ({error}): "
        "either the port is taken, or the address is not one of this machine."
    )


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
        descriptors: how many this process may have open; None for any number.
        in_use: how many it has open now.
    """
    needed = _PER_WORKER * workers + _SPARE
    most = needed + _MOST_STRANGERS
    if descriptors is not None:
        room = descriptors - in_use - _RESERVE - _RESERVE_PER_WORKER * workers
        # With fewer descriptors than workers need, the search still begins: it may get by with less than the reserve.
        most = max(needed, min(most, room // _PORTS))
    return ConnectionLimits(connections=most, greetings=needed)
