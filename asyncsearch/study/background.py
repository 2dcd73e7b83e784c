"""Calls in threads of their own: one whose result is needed later, and one that no signal breaks off."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

from asyncsearch.driver.threads import Wakeup

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


def in_another_thread(
    function: Callable[[], T], meanwhile: Callable[[], object] = lambda: None, every_s: float | None = None
) -> T:
    """Call a function in another thread and return what it returns; wait for it whatever is raised in this one.

    Args:
        meanwhile: called in this thread every ``every_s`` seconds while it waits; None means never.
    """
    done = Wakeup()
    results: list[T] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    try:
        threading.Thread(target=call, name="asyncsearch-run", daemon=True).start()
    except RuntimeError:  # the machine has no thread to spare
        call()
    raised: BaseException | None = None
    while not done.is_set():
        try:
            if not done.wait(every_s):
                meanwhile()
        except BaseException as error:  # of a signal's handler that is the user's own
            raised = error
    done.close()
    if raised is not None or errors:
        raise raised or errors[0]
    return results[0]
