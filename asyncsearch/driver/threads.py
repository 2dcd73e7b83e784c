"""The driver's thread with its asyncio loop, and a wake-up call between threads that a Ctrl-C cannot break."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import socket
import threading
from collections.abc import Coroutine
from typing import Any


class Wakeup:
    """Any thread sets it; one thread waits for it.

    A thread that gets KeyboardInterrupt cannot wait for a ``threading.Event``: the exception may leave the event's own
    lock held, and then the thread that sets the event waits for ever. Here the waiting thread holds no lock.
    """

    def __init__(self) -> None:
        self._near, self._far = socket.socketpair()
        self._near.setblocking(False)
        self._far.setblocking(False)
        self._is_set = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._near, selectors.EVENT_READ)

    def is_set(self) -> bool:
        """Return whether it was set since it was last cleared."""
        return self._is_set

    def set(self) -> None:
        """Wake the thread that waits, or the next one that does."""
        if not self._is_set:
            self._is_set = True
            with contextlib.suppress(OSError):
                self._far.send(b"!")

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is set, and return whether it is."""
        if not self._is_set:
            self._selector.select(timeout_s)
        return self._is_set

    def clear(self) -> None:
        """Be ready for the next call of ``set``; one that comes meanwhile is kept."""
        # The flag first: a ``set`` between the two lines may lose its byte, but not its flag.
        self._is_set = False
        with contextlib.suppress(BlockingIOError):
            self._near.recv(4096)

    def close(self) -> None:
        """Close the sockets; ``set`` does nothing from now on."""
        self._is_set = True
        self._selector.close()
        self._near.close()
        self._far.close()


class LoopThread:
    """Runs a loop until it is closed; other threads call into it by ``loop.call_soon_threadsafe``."""

    def __init__(self, name: str) -> None:
        """Make the loop; it does nothing before ``start``."""
        self.loop = asyncio.new_event_loop()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close_after(self, last: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine to its end, then end the thread, whatever the coroutine raises."""
        try:
            asyncio.run_coroutine_threadsafe(last, self.loop).result()
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._ended.wait()
            self.loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self._ended.set()
