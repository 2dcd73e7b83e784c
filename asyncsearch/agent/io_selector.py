"""A selector with callbacks, whose masks may change at any time."""

from __future__ import annotations

import selectors
from collections.abc import Callable
from typing import Protocol

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class HasFileno(Protocol):
    """A socket or a pipe."""

    def fileno(self) -> int:
        """Return the descriptor."""


class DescriptorSelector:
    """Calls a function when its descriptor is ready."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def set(self, file: HasFileno, mask: int, ready: Callable[[int], object]) -> None:
        """Watch for the events in ``mask``, for none if it is 0."""
        key = self._selector.get_map().get(file)
        if key is None:
            if mask:
                self._selector.register(file, mask, ready)
        elif not mask:
            self.forget(file)
        elif key.events != mask:
            self._selector.modify(file, mask, ready)

    def forget(self, file: HasFileno) -> None:
        """Stop watching a file; call this before the file is closed."""
        if file in self._selector.get_map():
            self._selector.unregister(file)

    def wait(self, timeout_s: float) -> None:
        """Wait until a descriptor is ready, or the time is over, and call the functions."""
        for key, mask in self._selector.select(timeout_s):
            now = self._selector.get_map().get(key.fd)
            if now is not None and now.fileobj is key.fileobj:  # else an earlier callback has closed it
                key.data(mask)

    def close(self) -> None:
        self._selector.close()
