"""A wake-up call that a Ctrl-C cannot break."""

from __future__ import annotations

import contextlib
import selectors
import socket


class Wakeup:
    """Any thread rings; one thread waits.

    ``threading.Event`` will not do for a thread that gets KeyboardInterrupt: the exception may leave the event's own
    lock held, and then whoever sets the event waits for ever. Here the waiting thread holds no lock at all.
    """

    def __init__(self) -> None:
        self._near, self._far = socket.socketpair()
        self._near.setblocking(False)
        self._far.setblocking(False)
        self._has_rung = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._near, selectors.EVENT_READ)

    @property
    def has_rung(self) -> bool:
        """Whether it was rung since it was last answered."""
        return self._has_rung

    def ring(self) -> None:
        """Wake whoever waits, now or later. Rung again before it was answered, it does nothing."""
        if not self._has_rung:
            self._has_rung = True
            with contextlib.suppress(OSError):
                self._far.send(b"!")

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it rings, and return whether it did."""
        if not self._has_rung:
            self._selector.select(timeout_s)
        return self._has_rung

    def answer(self) -> None:
        """Be ready for the next ring. A ring that comes meanwhile is kept."""
        self._has_rung = False
        with contextlib.suppress(BlockingIOError):
            self._near.recv(4096)

    def close(self) -> None:
        """Give the sockets back; rings do nothing from now on."""
        self._has_rung = True
        self._selector.close()
        self._near.close()
        self._far.close()
