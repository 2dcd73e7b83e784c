"""What a trial changed of its process is undone before the next one."""

from __future__ import annotations

import concurrent.futures
import gc
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from asyncsearch.runner.process.process_state import ProcessState, SignalState
from asyncsearch.runner.runner import close_groups


def a_handler(number: int, frame: object) -> None:
    del number, frame


def _alarm() -> None:
    signal.setitimer(signal.ITIMER_PROF, 1_000.0)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1_000.0)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


LOOKS: dict[str, Callable[[], object]] = {
    "alarm": lambda: [signal.getitimer(timer) == (0.0, 0.0) for timer in (signal.ITIMER_PROF, signal.ITIMER_VIRTUAL)],
    "handlers": lambda: [signal.getsignal(number) for number in (signal.SIGVTALRM, signal.SIGUSR1, signal.SIGPROF)],
    "mask": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
    "arguments": lambda: list(sys.argv),
    "umask": lambda: (os.umask(before := os.umask(0)), before)[1],
    "recursion": sys.getrecursionlimit,
    "profiler": sys.getprofile,
    "collector": gc.isenabled,
    "limit": lambda: resource.getrlimit(resource.RLIMIT_NOFILE),
}
CHANGES: dict[str, Callable[[], object]] = {
    "alarm": _alarm,
    "handlers": lambda: [signal.signal(n, a_handler) for n in (signal.SIGVTALRM, signal.SIGUSR1, signal.SIGPROF)],
    "mask": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGUSR1,)),
    "arguments": lambda: sys.argv.append("--lr"),
    "umask": lambda: os.umask(0o777),
    "recursion": lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 100),
    "profiler": lambda: sys.setprofile(lambda *_: None),
    "collector": gc.disable,
    "limit": _limit,
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_would_interrupt_or_limit_the_next_trial_is_undone(what: str) -> None:
    state, before = ProcessState(), LOOKS[what]()
    try:
        CHANGES[what]()
        changed = LOOKS[what]()
    finally:
        state.restore()
    assert changed != before
    assert LOOKS[what]() == before


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity") or os.cpu_count() == 1, reason="Linux, two processors")
def test_the_next_trial_has_the_processors_that_this_one_gave_up() -> None:
    state, before = ProcessState(), os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    state.restore()
    assert os.sched_getaffinity(0) == before


def test_the_next_trial_may_choose_a_start_method_or_keeps_the_last_one() -> None:
    context: Any = multiprocessing.context._default_context
    default, method = context._default_context, multiprocessing.get_start_method()
    state = ProcessState()
    try:
        state.restore()
        multiprocessing.set_start_method("forkserver")
        state.restore()
        assert multiprocessing.get_start_method(allow_none=True) is None
        assert multiprocessing.get_context().get_start_method() == "forkserver"
        state.restore()
        multiprocessing.set_start_method("spawn")
    finally:
        context._default_context = default
        multiprocessing.set_start_method(method, force=True)


def test_a_timer_that_ran_before_goes_on() -> None:
    signal.setitimer(signal.ITIMER_VIRTUAL, 1_000.0)
    try:
        SignalState().restore()
        assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def test_the_handler_of_ended_children_stays_as_torch_sets_it_once() -> None:
    state, before = ProcessState(), signal.signal(signal.SIGCHLD, a_handler)
    try:
        state.restore()
        assert signal.getsignal(signal.SIGCHLD) is a_handler
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_thread_that_goes_on_is_named_once_and_an_idle_one_is_not() -> None:
    state, over = ProcessState(), threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(time.sleep, 0).result()
        threads = [threading.Thread(target=over.wait, name=name) for name in ("left", "also left")]
        threads.append(threading.Thread(target=over.wait, daemon=True))
        for thread in threads:
            thread.start()
        found = [thread.name for thread in state.new_threads()]
        again = state.new_threads()
        over.set()
        for thread in threads:
            thread.join()
    assert (found, again) == (["also left", "left"], [])


def test_connections_with_other_ranks_end_before_the_next_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[str] = []
    monkeypatch.setattr("asyncsearch.trainers.torch.gangs.process_groups.close_group", lambda: closed.append("group"))
    monkeypatch.setattr("asyncsearch.trainers.keras.gangs.rings.close_ring", lambda: closed.append("ring"))
    close_groups()
    assert closed == ["group", "ring"]
