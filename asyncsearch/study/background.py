"""A call in a thread of its own, whose result is needed later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def begun(function: Callable[[], T], name: str) -> Future[T]:
    """Begin to call a function in a daemon thread of this name; ``result()`` waits, and raises what it raised."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
