"""Signals in the runner: SIGTERM unwinds only the user's code, and no forked child inherits a handler.

A Python handler only notes its signal until the interpreter looks for it, and a forked child begins by forgetting what
was noted. A signal that comes before that, as from ``Pool.terminate()``, would be lost, and who waits for the child
would wait for ever. So such signals are blocked while a process forks, and a child has another handler by the time
they are let through.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from asyncsearch.trainable import TrialStopped

SignalHandler = Callable[[int, FrameType | None], Any]


class ForkedHandlers:
    """The signals that are handled here, and the passage of their handlers through a fork."""

    def __init__(self) -> None:
        self.in_child: dict[int, Any] = {}
        """Number of each signal handled here -> its handler in a child."""
        self._blocked = threading.local()
        """Signals that were blocked before the fork that a thread does; several threads may fork at once."""

    def block(self) -> None:
        """Hold these signals back: one between the fork and ``take`` would be forgotten by the child."""
        signals = tuple(self.in_child)
        self._blocked.before = signal.pthread_sigmask(signal.SIG_BLOCK, signals) if signals else None

    def unblock(self) -> None:
        """Let those through that came meanwhile."""
        before = getattr(self._blocked, "before", None)
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def take(self) -> None:
        """Set, in a child, its own handlers."""
        # While the mask is lifted the default action: a Python handler would be called inside this function, which
        # raises nothing that anybody sees.
        for number in self.in_child:
            signal.signal(number, signal.SIG_DFL)
        self.unblock()
        for number, handler in self.in_child.items():
            signal.signal(number, handler)
        self.in_child.clear()


_forked = ForkedHandlers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_forked.block, after_in_parent=_forked.unblock, after_in_child=_forked.take)


def handle(number: int, handler: SignalHandler, in_child: Any) -> None:
    """Set the handler of a signal in this process.

    Args:
        number: of the signal.
        handler: for this process.
        in_child: handler of a process that is forked from this one, as ``signal.signal`` takes it.
    """
    _forked.in_child[number] = in_child
    signal.signal(number, handler)


def let_through() -> None:
    """Unblock all signals: where the program that started this process had blocked SIGTERM, no stop would be heard."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_SETMASK, ())


@contextlib.contextmanager
def handling(number: int, handler: SignalHandler, default: Any) -> Iterator[None]:
    """Handle a signal in this process during a block; a child has the handler that it would have without the block.

    Args:
        number: of the signal.
        handler: for this process.
        default: the handler after the block if the one before it was set by C code, which Python cannot set again.
    """
    before = signal.getsignal(number)
    former = default if before is None else before
    outer = _forked.in_child.get(number)
    handle(number, handler, former if outer is None else outer)
    try:
        yield
    finally:
        signal.signal(number, former)
        if outer is None:
            _forked.in_child.pop(number, None)
        else:
            _forked.in_child[number] = outer


class SigtermGuard:
    """Raises ``TrialStopped`` in the main thread while the user's code runs."""

    def __init__(self) -> None:
        self.is_received = False
        """Whether SIGTERM arrived during this training."""
        self._is_armed = self._is_shielded = False
        self._thread = threading.get_ident()

    def arm(self) -> None:
        """Begin a training. Set the handlers again, because the previous trial may have replaced them."""
        # Only the driver handles Ctrl-C. Not SIG_IGN, which programs inherit: none could be ended by SIGINT.
        handle(signal.SIGINT, lambda number, frame: None, signal.default_int_handler)
        handle(signal.SIGTERM, self._on_sigterm, signal.SIG_DFL)
        self.is_received = False
        self._is_armed = True

    def disarm(self) -> None:
        """End a training: the user's code no longer runs."""
        self._is_armed = False

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Let the block finish: half a message on the channel would make all later ones unreadable."""
        if threading.get_ident() != self._thread:  # no other thread is interrupted
            yield
            return
        self._is_shielded = True
        try:
            yield
        finally:
            self._is_shielded = False
        self.raise_if_received()

    def raise_if_received(self) -> None:
        """Raise ``TrialStopped`` if a shield deferred it."""
        if self.is_received and self._is_armed:
            raise TrialStopped("the agent sent SIGTERM")

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.is_received = True
        if not self._is_shielded:
            self.raise_if_received()
