"""A port of the driver that tasks try before a worker needs one: it shows whether they reach it, and its clock."""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import struct
import threading
import time

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
        self._bind = bind.strip("[]")
        self._port = port
        self._socket: socket.socket | None = None

    @property
    def port(self) -> int:
        """The port on which it listens."""
        assert self._socket is not None, "the server is used inside its `with`"
        return int(self._socket.getsockname()[1])

    def __enter__(self) -> ClockServer:
        """Begin to listen.

        Raises:
            OSError: the address cannot be listened on.
        """
        family = socket.AF_INET6 if ":" in self._bind else socket.AF_INET
        self._socket = socket.create_server((self._bind, self._port), family=family)
        threading.Thread(target=self._serve, args=(self._socket,), name="asyncsearch-clock", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            # Closing alone would leave the thread in `accept` on Linux; macOS refuses this, and does not need it.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()

    def _serve(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:  # closed
                return
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
