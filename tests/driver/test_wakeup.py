"""Waits of the main thread that an interrupt neither breaks nor misses."""

from __future__ import annotations

import queue
import signal
import sys
import threading
import time
from collections.abc import Callable

import pytest

from asyncsearch.driver.interrupts import interrupts_to
from asyncsearch.driver.threads import Wakeup, next_of


def test_a_set_before_the_wait_counts() -> None:
    wakeup = Wakeup()
    wakeup.set()
    assert wakeup.wait(0.0)
    wakeup.close()


def test_a_cleared_wakeup_waits_until_it_is_set_again() -> None:
    wakeup = Wakeup()
    wakeup.set()
    wakeup.set()
    wakeup.clear()
    assert not wakeup.wait(0.0)
    wakeup.set()
    assert wakeup.wait(0.0)
    wakeup.close()


def test_set_wakes_a_thread_that_waits() -> None:
    wakeup, woken = Wakeup(), threading.Event()

    def wait() -> None:
        if wakeup.wait(300.0):
            woken.set()

    threading.Thread(target=wait, daemon=True).start()
    wakeup.set()
    assert woken.wait(300.0)
    wakeup.close()


def test_no_set_is_lost_between_a_clear_and_a_wait() -> None:
    wakeup, sets, cleared = Wakeup(), [0], 0
    total = 2_000

    def set_often() -> None:
        for _ in range(total):
            sets[0] += 1
            wakeup.set()

    setter = threading.Thread(target=set_often)
    setter.start()
    while cleared < total:
        # After a lost set this would wait until pytest's timeout.
        wakeup.wait()
        wakeup.clear()
        cleared = sets[0]
    setter.join()
    wakeup.close()


def stands_still(thread: int) -> bool:
    """Whether a thread waits in C code: it makes no step while others do."""
    steps = set()
    for _ in range(100):
        frame = sys._current_frames()[thread]
        steps.add((frame.f_code, frame.f_lasti))
        time.sleep(0)  # the interpreter goes to whoever wants it
    return len(steps) == 1


def require_woken(wake: Callable[[], None], wait: Callable[[], object]) -> None:
    main = threading.get_ident()

    def receive() -> None:
        while not stands_still(main):
            pass
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    received = threading.Thread(target=receive, daemon=True)
    with interrupts_to(wake):
        received.start()
        wait()  # without its looks this would wait until pytest's timeout
        received.join()


def test_a_wakeup_is_set_by_a_signal_that_another_thread_received() -> None:
    wakeup = Wakeup()
    require_woken(wakeup.set, wakeup.wait)
    wakeup.close()


def test_a_queue_is_filled_by_a_signal_that_another_thread_received() -> None:
    inbox: queue.SimpleQueue[None] = queue.SimpleQueue()
    require_woken(lambda: inbox.put(None), lambda: next_of(inbox))


def test_a_wait_for_a_queue_ends_after_its_time() -> None:
    with pytest.raises(queue.Empty):
        next_of(queue.SimpleQueue(), 0.0)
