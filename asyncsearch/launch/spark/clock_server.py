"""A port of the driver that tasks try before a worker needs one: it shows whether they reach it, and its clock."""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import struct
import threading
import time

from asyncsearch.launch.listening_port import ListeningPort

_PATIENCE_S = 10.0
TOKEN_BYTES = 16


class ClockServer:
    """A port that answers a token with the time, inside ``with ClockServer(host, bind, port) as server: ...``."""

    def __init__(self, host: str, bind: str, port: int) -> None:
        """Describe a server.

        Args:
            host: the name at which executors are told to connect.
            bind: the address to listen on.
            port: 0 for any free one.
        """
        self.host = host.strip("[]")
        self.token = secrets.token_bytes(TOKEN_BYTES)
        self._bind, self._port = bind, port
        self._listener: ListeningPort | None = None

    @property
    def port(self) -> int:
        """The port on which it listens."""
        assert self._listener is not None, "the server is used inside its `with`"
        return self._listener.port

    def __enter__(self) -> ClockServer:
        """Begin to listen.

        Raises:
            OSError: the address cannot be listened on.
        """
        self._listener = ListeningPort(self._bind, self._port, self._take, "asyncsearch-clock")
        return self

    def __exit__(self, *_: object) -> None:
        if self._listener is not None:
            self._listener.close()

    def _take(self, connection: socket.socket) -> None:
        threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(_PATIENCE_S)
            with contextlib.suppress(OSError):  # it is gone
                while hmac.compare_digest(_exactly(connection, TOKEN_BYTES), self.token):
                    connection.sendall(struct.pack("!d", time.time()))


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            return b""
        data += part
    return data
