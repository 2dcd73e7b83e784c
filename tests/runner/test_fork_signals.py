"""A process that handles signals in Python loses none that comes to a child which it has just forked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

import pytest

from asyncsearch.runner.process import signals as fork_signals
from asyncsearch.runner.process.signals import SigtermGuard, handle, handling
from tests.shares import IS_ALL, first

FORKS = 60 if IS_ALL else 24
"""Without the mask some of so many children lose a signal that is sent to them at once."""


@pytest.fixture(autouse=True)
def _handlers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(fork_signals._forked, "in_child", {})
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def ignored(number: int, frame: FrameType | None) -> None:
    del number, frame


def end_of_child(number: signal.Signals) -> int:
    """Fork a child that waits, send it a signal at once, and return its exit code as ``subprocess`` gives it."""
    pid = os.fork()
    if pid == 0:
        try:
            time.sleep(1)
        finally:
            os._exit(0)
    os.kill(pid, number)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("number", first([signal.SIGINT, signal.SIGTERM]))
def test_a_signal_that_is_sent_to_a_child_at_once_ends_it(number: signal.Signals) -> None:
    handle(number, ignored, signal.SIG_DFL)
    assert [end_of_child(number) for _ in range(FORKS)] == FORKS * [-number]


def test_children_that_several_threads_fork_at_once_lose_no_signal() -> None:
    handle(signal.SIGTERM, ignored, signal.SIG_DFL)
    ends: list[int] = []
    threads = [
        threading.Thread(target=lambda: ends.extend(end_of_child(signal.SIGTERM) for _ in range(FORKS // 4)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(ends) == {-signal.SIGTERM}


def test_a_fork_leaves_the_signals_of_its_process_as_they_were() -> None:
    got: list[int] = []
    handle(signal.SIGTERM, lambda number, _: got.append(number), signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        assert end_of_child(signal.SIGTERM) == -signal.SIGTERM
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == {signal.SIGUSR1}
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    signal.raise_signal(signal.SIGTERM)
    assert got == [signal.SIGTERM]


def handlers_of_child() -> str:
    """Return the names of a forked child's handlers of SIGTERM and SIGINT."""
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        found = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
        os.write(writing, " ".join(getattr(one, "__name__", "") or str(one) for one in found).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        return pipe.read()


def test_a_trial_s_child_has_the_handlers_of_any_program_of_python() -> None:
    SigtermGuard().arm()
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert handlers_of_child().split() == [str(signal.SIG_DFL), "default_int_handler"]


def test_a_child_has_the_handler_from_before_any_block_for_the_signal() -> None:
    signal.signal(signal.SIGINT, ignored)
    with handling(signal.SIGINT, lambda number, _: None, signal.default_int_handler):
        with handling(signal.SIGINT, lambda number, _: None, signal.default_int_handler):
            assert handlers_of_child().split()[1] == "ignored"
        assert handlers_of_child().split()[1] == "ignored"
    assert signal.getsignal(signal.SIGINT) is ignored


@pytest.mark.parametrize("preexec", [None, os.getpid])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_program_that_a_trial_has_started(number: signal.Signals, preexec: object) -> None:
    SigtermGuard().arm()
    for _ in range(10):
        program = subprocess.Popen(["sleep", "20"], preexec_fn=preexec)  # type: ignore[call-overload]  # noqa: PLW1509
        program.send_signal(number)
        assert program.wait() == -number


def test_a_python_program_started_by_a_trial_is_interrupted_as_any() -> None:
    SigtermGuard().arm()
    line = "import signal; print(signal.getsignal(signal.SIGINT).__name__)"
    shown = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "default_int_handler"
