"""The interrupt of a thread, and the lines of threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress

import pytest

from asyncsearch.launch.threads.guard import ThreadGuard
from asyncsearch.launch.threads.printed import captured, close_outputs, open_outputs
from asyncsearch.trainable import TrialStopped


def in_thread(function: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def test_an_interrupt_comes_at_the_end_of_a_shield_and_not_in_it() -> None:
    guard, is_inside, goes_on, found = ThreadGuard(), threading.Event(), threading.Event(), []

    def work() -> None:
        guard.arm()
        try:
            with guard.shield():
                is_inside.set()
                goes_on.wait(60)
                found.append("whole")
            found.append("too far")
        except TrialStopped:
            found.append("stopped")
        finally:
            guard.disarm()

    thread = in_thread(work)
    assert is_inside.wait(60)
    guard.interrupt()
    goes_on.set()
    thread.join()
    assert found == ["whole", "stopped"]


def test_an_interrupt_ends_a_loop_and_none_comes_after_the_training() -> None:
    guard, begun, found = ThreadGuard(), threading.Event(), []

    def work() -> None:
        guard.arm()
        with suppress(TrialStopped):
            begun.set()
            while True:
                pass
        guard.disarm()
        found.append("over")
        guard_is_quiet.wait(60)
        found.append("unhurt")

    guard_is_quiet = threading.Event()
    thread = in_thread(work)
    assert begun.wait(60)
    guard.interrupt()
    while not found:
        pass
    guard.interrupt()
    guard_is_quiet.set()
    thread.join()
    assert found == ["over", "unhurt"]


@pytest.mark.parametrize("is_shielded", [True, False], ids=["shield", "code"])
def test_an_interrupt_comes_once_so_that_what_cleans_up_may_print(is_shielded: bool) -> None:
    guard, begun, found = ThreadGuard(), threading.Event(), []

    def work() -> None:
        guard.arm()
        try:
            with guard.shield() if is_shielded else nullcontext():
                begun.set()
                while not guard.is_received:
                    with guard.shield():
                        pass
                found.append("end of the loop")
            while True:
                pass
        except TrialStopped:
            for _ in range(2):
                with guard.shield():
                    found.append("printed")
        finally:
            guard.disarm()

    thread = in_thread(work)
    assert begun.wait(60)
    guard.interrupt()
    thread.join()
    assert found[-2:] == ["printed", "printed"]
    assert is_shielded <= (found[0] == "end of the loop")


def test_only_text_is_written_as_to_a_real_stream() -> None:
    found: list[str] = []
    open_outputs()
    try:
        with (
            captured(lambda is_stderr, text: found.append(text)),
            pytest.raises(TypeError, match="must be str, not int"),
        ):
            sys.stdout.write(3)  # type: ignore[arg-type]
    finally:
        close_outputs()
    assert not found


def test_each_thread_prints_to_its_own_and_all_others_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    lines: dict[str, list[tuple[bool, str]]] = {"a": [], "b": []}
    before = sys.stdout

    def work(name: str) -> None:
        with captured(lambda is_stderr, text: lines[name].append((is_stderr, text))):
            sys.stdout.write(f"{name}\n")
            sys.stderr.write(f"{name}!")

    open_outputs()
    for thread in [in_thread(lambda name=name: work(name)) for name in lines]:  # type: ignore[misc]
        thread.join()
    sys.stdout.write("mine\n")
    close_outputs()
    assert sys.stdout is before
    assert lines == {name: [(False, f"{name}\n"), (True, f"{name}!")] for name in lines}
    assert capsys.readouterr().out == "mine\n"
