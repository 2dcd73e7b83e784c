"""A call in a thread of its own, whose result is needed later."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


@contextlib.contextmanager
def begun(function: Callable[[], T], name: str) -> Iterator[Future[T]]:
    """Call a function in a thread of this name, which has ended at the end of the ``with``.

    Yields:
        The future of its result: ``result()`` waits, and raises what it raised.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield future
    finally:
        thread.join()
