"""A network between driver and workers that drops, delays, cuts and swallows: a TCP proxy."""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable

import msgspec

PATIENCE_S = 300.0
"""How long a test waits for what must happen; reached only by a test that fails."""
UP, DOWN = "to the driver", "to the worker"
_RESET = struct.pack("ii", 1, 0)
"""Makes ``close`` send a reset: the peer learns at once that the connection is gone."""


class Weather(msgspec.Struct, frozen=True, kw_only=True):
    """What a link does to what it carries."""

    delay_s: float = 0.0
    """By how much later each piece arrives."""
    drops_after: tuple[int, ...] = ()
    """Bytes, of both directions, after which a connection is reset, for each connection in turn. Empty means never."""
    swallows: frozenset[str] = frozenset()
    """Directions in which connections stand and carry nothing."""
    is_down: bool = False
    """Whether there is no connection, and none can be made."""


FAIR = Weather()


class Proxy:
    """A way of workers to their driver."""

    def __init__(self, port: int, weather: Weather = FAIR) -> None:
        self._target = port
        self.weather = weather
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._pairs: list[_Pair] = []
        self._changed = threading.Condition()
        self.accepted = self.refused = 0
        self._to_refuse = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def set(self, weather: Weather) -> None:
        """Change what becomes of what is carried from now on."""
        with self._changed:
            self.weather = weather
            pairs = list(self._pairs)
        if weather.is_down:
            for pair in pairs:
                pair.reset()

    def cut(self) -> None:
        """Break the present connections; new ones can be made."""
        with self._changed:
            pairs = list(self._pairs)
        for pair in pairs:
            pair.reset()

    def swallow(self) -> None:
        """Let the present connections stand and carry nothing any more; new ones can be made."""
        with self._changed:
            for pair in self._pairs:
                pair.is_dead = True

    def refuse(self, times: int) -> None:
        """Break the present connections, and refuse so many new ones."""
        with self._changed:
            self._to_refuse = times
        self.cut()

    def wait_for(self, is_enough: Callable[[Proxy], bool]) -> None:
        """Wait until the connections made and refused are enough."""
        with self._changed:
            assert self._changed.wait_for(lambda: is_enough(self), PATIENCE_S), (self.accepted, self.refused)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                with self._changed:
                    if self.weather.is_down or self._to_refuse:
                        self.refused += 1
                        self._to_refuse = max(0, self._to_refuse - 1)
                        _reset(near)
                    else:
                        self._join(near)
                    self._changed.notify_all()

    def _join(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._target))
        except OSError:  # a worker may be sooner than its driver, and tries again
            _reset(near)
        else:
            self.accepted += 1
            self._pairs.append(_Pair(self, near, far))


class _Pair:
    """One connection of a worker, and the one to the driver that carries on what comes from it."""

    def __init__(self, proxy: Proxy, near: socket.socket, far: socket.socket) -> None:
        self._proxy, self._sockets, self._number = proxy, (near, far), proxy.accepted
        self._carried = 0
        self.is_dead = False
        """Whether it stands and carries nothing any more."""
        for source, sink, way in ((near, far, UP), (far, near, DOWN)):
            pieces: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
            threading.Thread(target=self._read, args=(source, pieces), daemon=True).start()
            threading.Thread(target=self._write, args=(sink, pieces, way), daemon=True).start()

    def reset(self) -> None:
        for end in self._sockets:
            _reset(end)

    def _read(self, source: socket.socket, pieces: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        data = b"begun"
        while data:
            try:
                data = source.recv(65536)
            except OSError:
                data = b""
            pieces.put((time.monotonic() + self._proxy.weather.delay_s, data))

    def _write(self, sink: socket.socket, pieces: queue.SimpleQueue[tuple[float, bytes]], way: str) -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = pieces.get()
                time.sleep(max(0.0, due - time.monotonic()))
                weather = self._proxy.weather
                if self.is_dead or way in weather.swallows:
                    continue
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                self._carried += len(data)
                limits = weather.drops_after
                if limits and self._carried > limits[self._number % len(limits)]:
                    self.reset()
                    return
                sink.sendall(data)


def _reset(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        end.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads
    end.close()
