"""A wake-up call that a Ctrl-C cannot break."""

from __future__ import annotations

import contextlib
import selectors
import socket


class Wakeup:
    """Any thread sets it; one thread waits.

    ``threading.Event`` will not do for a thread that gets KeyboardInterrupt: the exception may leave the event's own
    lock held, and then whoever sets the event waits for ever. Here the waiting thread holds no lock at all.
    """

    def __init__(self) -> None:
        self._near, self._far = socket.socketpair()
        self._near.setblocking(False)
        self._far.setblocking(False)
        self._is_set = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._near, selectors.EVENT_READ)

    @property
    def is_set(self) -> bool:
        """Whether it was set since it was last cleared."""
        return self._is_set

    def set(self) -> None:
        """Wake whoever waits, now or later. Set again before it was cleared, it does nothing."""
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
        """Be ready to be set again. A call of ``set`` that comes meanwhile is kept."""
        self._is_set = False
        with contextlib.suppress(BlockingIOError):
            self._near.recv(4096)

    def close(self) -> None:
        """Close the sockets; ``set`` does nothing from now on."""
        self._is_set = True
        self._selector.close()
        self._near.close()
        self._far.close()
