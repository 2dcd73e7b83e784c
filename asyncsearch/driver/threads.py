"""The driver's thread with its asyncio loop, and waits of the main thread that a Ctrl-C neither breaks nor misses.

Python runs a signal's handler between two steps of the main thread. A signal that another thread of the process
receives, or that comes just before a wait, does not end the wait. So the main thread never waits long at a stretch.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import queue
import selectors
import socket
import sys
import threading
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from asyncsearch.errors import UsageError

T = TypeVar("T")

_LOOK_S = 1.0
"""How long a handler may be kept waiting."""


_REPLACING = {"gevent.monkey": ("is_module_patched", "threading"), "eventlet.patcher": ("is_monkey_patched", "thread")}
"""Modules that replace Python's threads by coroutines: the function that tells of it, and its argument."""


def require_threads() -> None:
    """Check that threads of this process run beside each other.

    Raises:
        UsageError: a library has replaced them.
    """
    for name, (question, what) in _REPLACING.items():
        module = sys.modules.get(name)
        if module is not None and getattr(module, question)(what):
            library = name.partition(".")[0]
            raise UsageError(
                f"{library} has replaced Python's threads in this process, so that those of a search would wait for "
                f"each other for ever: search in a program that does not call {library}'s monkey patching."
            )


def next_of(inbox: queue.SimpleQueue[T], timeout_s: float | None = None) -> T:
    """Return the next item of a queue; the handlers of signals run meanwhile.

    Raises:
        queue.Empty: nothing came within ``timeout_s``; None means no limit.
    """
    until_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = until_s - time.monotonic()
        try:
            return inbox.get(timeout=max(0.0, min(left_s, _LOOK_S)))
        except queue.Empty:
            if left_s <= _LOOK_S:
                raise


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
        until_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while not self._is_set:
            left_s = until_s - time.monotonic()
            if self._selector.select(max(0.0, min(left_s, _LOOK_S))) or left_s <= _LOOK_S:
                break
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
