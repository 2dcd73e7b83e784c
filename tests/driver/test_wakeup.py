"""A wake-up call that an interrupt cannot break."""

from __future__ import annotations

import threading

from asyncsearch.driver.threads import Wakeup


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
