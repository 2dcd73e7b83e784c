"""A wake-up call that an interrupt cannot break."""

from __future__ import annotations

import threading

from asyncsearch.driver.wakeup import Wakeup


def test_a_ring_before_the_wait_is_heard() -> None:
    wakeup = Wakeup()
    wakeup.set()
    assert wakeup.wait(0.0)
    wakeup.close()


def test_a_cleared_wakeup_is_silent_until_it_is_set_again() -> None:
    wakeup = Wakeup()
    wakeup.set()
    wakeup.set()
    wakeup.clear()
    assert not wakeup.wait(0.0)
    wakeup.set()
    assert wakeup.wait(0.0)
    wakeup.close()


def test_a_ring_wakes_a_thread_that_waits() -> None:
    wakeup, woken = Wakeup(), threading.Event()

    def wait() -> None:
        if wakeup.wait(300.0):
            woken.set()

    threading.Thread(target=wait, daemon=True).start()
    wakeup.set()
    assert woken.wait(300.0)
    wakeup.close()


def test_no_ring_is_lost_between_an_answer_and_a_wait() -> None:
    wakeup, rung, answered = Wakeup(), [0], 0
    total = 2_000

    def ring() -> None:
        for _ in range(total):
            rung[0] += 1
            wakeup.set()

    ringer = threading.Thread(target=ring)
    ringer.start()
    while answered < total:
        # After a lost ring this would wait until pytest's timeout.
        wakeup.wait()
        wakeup.clear()
        answered = rung[0]
    ringer.join()
    wakeup.close()
