"""A call in a thread of its own leaves no thread behind."""

from __future__ import annotations

import contextlib
import threading

import pytest

from asyncsearch.study.run import begun


def test_the_thread_has_ended_at_the_end_of_the_with_even_if_that_failed() -> None:
    may_end = threading.Event()
    with contextlib.suppress(KeyError), begun(may_end.wait, "a-call") as future:
        may_end.set()
        raise KeyError
    assert future.done()
    assert "a-call" not in {thread.name for thread in threading.enumerate()}


def test_what_the_function_raised_is_raised_by_its_result() -> None:
    with begun(lambda: 1 // 0, "a-call") as future, pytest.raises(ZeroDivisionError):
        future.result()
