"""A selector whose descriptors may be set again and again."""

from __future__ import annotations

import selectors
from collections.abc import Callable
from typing import Protocol

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class HasFileno(Protocol):
    """A socket, a pipe."""

    def fileno(self) -> int:
        """Return the descriptor."""


class DescriptorSelector:
    """Calls back what a descriptor is ready for."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def set(self, file: HasFileno, mask: int, ready: Callable[[int], object]) -> None:
        """Look for what is in ``mask``; 0: for nothing."""
        key = self._selector.get_map().get(file)
        if key is None:
            if mask:
                self._selector.register(file, mask, ready)
        elif not mask:
            self.forget(file)
        elif key.events != mask:
            self._selector.modify(file, mask, ready)

    def forget(self, file: HasFileno) -> None:
        """Look for nothing any more; call it before the file is closed."""
        if file in self._selector.get_map():
            self._selector.unregister(file)

    def wait(self, timeout_s: float) -> None:
        """Wait until something is ready, or the time is over, and call back."""
        for key, mask in self._selector.select(timeout_s):
            now = self._selector.get_map().get(key.fd)
            if now is not None and now.fileobj is key.fileobj:  # else a call before this one has closed it
                key.data(mask)

    def close(self) -> None:
        self._selector.close()
