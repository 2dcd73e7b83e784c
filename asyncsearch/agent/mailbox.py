"""A queue from other threads to the agent's one thread."""

from __future__ import annotations

import os
import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Mailbox(Generic[T]):
    """A queue that wakes a selector."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: list[T] = []
        self._reading, self._writing = os.pipe()
        self._is_closed = False

    def fileno(self) -> int:
        """Return a descriptor that is readable while items wait."""
        return self._reading

    def put(self, item: T) -> None:
        """Add an item; any thread may call this. Items after ``close`` are dropped."""
        with self._lock:
            if self._is_closed:
                return
            self._items.append(item)
            if len(self._items) == 1:  # one byte wakes the reader for all items, so the pipe is never full
                os.write(self._writing, b".")

    def take(self) -> list[T]:
        """Return the items since the last call, in order, without waiting."""
        with self._lock:
            items, self._items = self._items, []
            if items:
                os.read(self._reading, 1)
            return items

    def close(self) -> None:
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._reading)
                os.close(self._writing)
