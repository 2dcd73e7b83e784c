"""Ctrl-C is counted wherever it comes, and raised only out of what may be interrupted."""

from __future__ import annotations

import signal
import threading

import pytest

from asyncsearch.driver.interrupts import Interrupts, interrupts_to
from asyncsearch.driver.threads import Wakeup


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def test_ctrl_c_is_counted_and_rings_and_raises_nothing() -> None:
    interrupts, wakeup = Interrupts(), Wakeup()
    interrupts.wakeups = (wakeup,)
    with interrupts_to(interrupts.add):
        press()
        press()
    assert interrupts.count == 2
    assert wakeup.is_set()
    wakeup.close()


def test_the_former_handler_is_back_whatever_happens() -> None:
    former = signal.getsignal(signal.SIGINT)

    def fail() -> None:
        with interrupts_to(lambda: None):
            assert signal.getsignal(signal.SIGINT) is not former
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert signal.getsignal(signal.SIGINT) is former


def test_outside_the_main_thread_no_handler_is_set() -> None:
    former, found = signal.getsignal(signal.SIGINT), []

    def look() -> None:
        with interrupts_to(lambda: None):
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [former]


def test_what_may_be_interrupted_is_broken_once_and_each_press_counts_once() -> None:
    interrupts, after = Interrupts(), []

    def function() -> None:
        try:
            press()
        finally:
            press()
            after.append("unwound")

    with interrupts_to(interrupts.add):
        interrupts.interruptible(function)
        press()
    assert after == ["unwound"]
    assert interrupts.count == 3


def test_a_debugger_that_is_left_is_a_press() -> None:
    interrupts = Interrupts()

    def function() -> None:
        raise KeyboardInterrupt

    interrupts.interruptible(function)
    assert interrupts.count == 1


def test_nothing_is_begun_after_a_press_of_which_the_driver_does_not_know() -> None:
    interrupts, called = Interrupts(), []
    interrupts.add()
    interrupts.interruptible(lambda: called.append("begun"))
    assert called == []
    assert interrupts.count == 1
