"""A wake-up call that an interrupt cannot break."""

from __future__ import annotations

import threading

from asyncsearch.driver.wakeup import Wakeup


def test_a_ring_before_the_wait_is_heard() -> None:
    bell = Wakeup()
    bell.ring()
    assert bell.wait(0.0)
    bell.close()


def test_an_answered_bell_is_silent_until_it_is_rung_again() -> None:
    bell = Wakeup()
    bell.ring()
    bell.ring()
    bell.answer()
    assert not bell.wait(0.0)
    bell.ring()
    assert bell.wait(0.0)
    bell.close()


def test_a_ring_wakes_a_thread_that_waits() -> None:
    bell, woken = Wakeup(), threading.Event()

    def wait() -> None:
        if bell.wait(300.0):
            woken.set()

    threading.Thread(target=wait, daemon=True).start()
    bell.ring()
    assert woken.wait(300.0)
    bell.close()


def test_no_ring_is_lost_between_an_answer_and_a_wait() -> None:
    bell, rung, answered = Wakeup(), [0], 0
    total = 2_000

    def ring() -> None:
        for _ in range(total):
            rung[0] += 1
            bell.ring()

    ringer = threading.Thread(target=ring)
    ringer.start()
    while answered < total:
        # After a lost ring this would wait until pytest's timeout.
        bell.wait()
        bell.answer()
        answered = rung[0]
    ringer.join()
    bell.close()
