"""A process that was forked beside gRPC says so before it would be aborted."""

from __future__ import annotations

import os
import time

import pytest

from asyncsearch.errors import UsageError
from asyncsearch.rpc import forks
from asyncsearch.rpc.forks import require_no_fork_with_grpc
from asyncsearch.rpc.quiet_grpc import grpc
from tests.rpc.proxy import PATIENCE_S


def words_of_child(generations: int = 1) -> str:
    """Return what a child, or its child, says of gRPC."""
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            words = words_of_child(generations - 1) if generations > 1 else ""
            if generations == 1:
                require_no_fork_with_grpc()
        except UsageError as error:
            words = str(error)
        os.write(writing, words.encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    with os.fdopen(reading) as pipe:
        return pipe.read()


def wait_until_running() -> None:
    """Wait for the threads of gRPC: each gives itself its name, some time after it was started."""
    until_s = time.monotonic() + PATIENCE_S
    while not forks._is_running():
        assert time.monotonic() < until_s, "gRPC has started no thread"
        time.sleep(0.01)


@pytest.mark.parametrize("generations", [1, 2])
def test_the_child_of_a_process_in_which_grpc_runs_is_told_what_to_write(generations: int) -> None:
    with grpc.insecure_channel("127.0.0.1:1"):
        wait_until_running()
        assert 'multiprocessing.get_context("spawn")' in words_of_child(generations)
        require_no_fork_with_grpc()


def test_the_child_of_a_process_in_which_it_does_not_run_may_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "_is_running", lambda: False)  # other tests of this process have used it
    assert words_of_child() == ""
