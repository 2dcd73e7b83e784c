"""A port of the driver, with a thread that takes each connection until it is closed."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

_WAITING = 1024
"""Connections that may wait to be taken: all workers of a run may come in one moment."""


class ListeningPort:
    """A listening port."""

    def __init__(self, bind: str, port: int, take: Callable[[socket.socket], None], name: str) -> None:
        """Begin to listen.

        Args:
            bind: the address to listen on.
            port: 0 for any free one.
            take: called with each connection, which it owns; until it returns, the next ones wait.
            name: of the thread.

        Raises:
            OSError: the address cannot be listened on.
        """
        address = bind.strip("[]")
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket, self._take = socket.create_server((address, port), family=family, backlog=_WAITING), take
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def close(self) -> None:
        """Take no connection any more."""
        # Closing alone would leave the thread in `accept` on Linux; macOS refuses this, and does not need it.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            self._take(connection)
