"""How a task that was submitted before its launch gets the configuration of it: over a socket of this machine.

The socket lies in a folder that only this user can enter, since the configuration holds the keys of the run.
"""

from __future__ import annotations

import contextlib
import queue
import secrets
import socket
import struct
import threading
from pathlib import Path

_LENGTH = struct.Struct("!Q")
_READ_BYTES = 1 << 20


class Handover:
    """The driver's end, for one task."""

    def __init__(self, folder: Path) -> None:
        """Listen in a folder that only this user can enter.

        Raises:
            OSError: the path is too long for a socket, or the system has no such sockets.
        """
        self.path = str(folder / secrets.token_hex(8))
        self._data: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(self.path)
            self._listener.listen(1)
        except OSError:
            self._listener.close()
            raise
        threading.Thread(target=self._serve, name="asyncsearch-handover", daemon=True).start()

    def give(self, data: bytes) -> None:
        """Send the task its data, now or when it comes; empty: it is not needed."""
        self._data.put(data)

    def close(self) -> None:
        """Wait for the task no longer: it has ended."""
        self._data.put(b"")
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # ``close`` would not wake the thread that accepts

    def _serve(self) -> None:
        with self._listener, contextlib.suppress(OSError):  # the task is gone, and its job says why
            data = self._data.get()
            connection, _ = self._listener.accept()
            with connection:
                connection.sendall(_LENGTH.pack(len(data)) + data)


class Receiver:
    """The task's end."""

    def __init__(self, path: str) -> None:
        """Connect, so that the end of the driver is noticed.

        Raises:
            OSError: the driver is gone.
        """
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)

    def receive(self) -> bytes:
        """Wait for the data; empty: the task is not needed, or the driver is gone."""
        with self._socket:
            length = self._read(_LENGTH.size)
            return self._read(*_LENGTH.unpack(length)) if length else b""

    def _read(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            try:
                part = self._socket.recv(min(length - len(data), _READ_BYTES))
            except OSError:
                part = b""
            if not part:
                return b""
            data += part
        return bytes(data)
