"""A launch for which the machine lacks descriptors at the moment waits, and its slot is not given up."""

from __future__ import annotations

import errno
import logging
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.errors import UsageError
from asyncsearch.ids import WorkerId
from asyncsearch.launch import machine, processes
from asyncsearch.launch.machine import PATIENCE_S, descriptors, is_scarcity, patiently
from asyncsearch.launch.processes import ProcessLauncher
from tests.launch.tools import Ends, config_for


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return False


def scarce() -> OSError:
    return OSError(errno.EMFILE, "Too many open files")


def test_a_launch_is_tried_until_it_succeeds(caplog: pytest.LogCaptureFixture) -> None:
    clock, errors = Clock(), [scarce() for _ in range(6)]

    def launch() -> str:
        if errors:
            raise errors.pop()
        return "launched"

    with caplog.at_level(logging.WARNING):
        assert patiently(launch, clock.wait, "worker-0", lambda: clock.now) == "launched"
    assert [record.getMessage() for record in caplog.records] == [
        "worker-0 cannot be started yet, and is tried again: [Errno 24] Too many open files"
    ]


def test_it_is_given_up_after_its_patience() -> None:
    clock = Clock()

    def launch() -> str:
        raise scarce()

    with pytest.raises(OSError, match="Too many open files"):
        patiently(launch, clock.wait, "worker-0", lambda: clock.now)
    assert PATIENCE_S - 10 < clock.now <= PATIENCE_S


def test_it_is_not_tried_again_when_it_is_called_off_or_cannot_succeed() -> None:
    calls = []

    def launch(error: Exception) -> str:
        calls.append(error)
        raise error

    with pytest.raises(OSError, match="Too many"):
        patiently(lambda: launch(scarce()), lambda _: True, "worker-0")
    with pytest.raises(OSError, match="No such file"):
        patiently(lambda: launch(OSError(errno.ENOENT, "No such file")), lambda _: False, "worker-0")
    assert len(calls) == 2


def test_a_cause_says_it_too() -> None:
    error = RuntimeError("Answer from Java side is empty")
    error.__cause__ = scarce()
    assert is_scarcity(error)
    assert not is_scarcity(RuntimeError("other"))


def test_this_process_knows_its_descriptors() -> None:
    most, in_use = descriptors()
    assert in_use > 2
    assert most is None or most > in_use


def test_a_worker_process_is_started_once_there_are_descriptors_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, errors = processes._start, [scarce(), scarce()]

    def lacking(*files: Any) -> Any:
        if errors:
            raise errors.pop()
        return start(*files)

    monkeypatch.setattr(processes, "_start", lacking)
    ends = Ends()
    launcher = ProcessLauncher(agent=lambda config: "served")
    launcher.start(lambda worker, epoch: config_for(tmp_path, b""), ends)
    launcher.launch(WorkerId(0), 1)
    assert ends.next() == (0, 1, "served")
    launcher.stop(0.0)
    assert not errors


@pytest.mark.parametrize(
    ("workers", "are_here", "least"), [(1, False, 41), (1, True, 44), (8, True, 72), (500, False, 540)]
)
def test_a_run_beyond_the_limit_of_open_files_is_refused_with_the_number(
    monkeypatch: pytest.MonkeyPatch, workers: int, are_here: bool, least: int
) -> None:
    for most in (least, None, 10**6):
        monkeypatch.setattr(machine, "descriptors", lambda most=most: (most, 10))
        machine.require_descriptors(workers, are_processes_here=are_here)
    monkeypatch.setattr(machine, "descriptors", lambda: (least - 1, 10))
    with pytest.raises(UsageError, match=rf"may have {least - 1} files open .*`ulimit -n (\d+)`") as caught:
        machine.require_descriptors(workers, are_processes_here=are_here)
    assert int(str(caught.value).partition("ulimit -n ")[2].partition("`")[0]) >= least
    assert ("parallelism=1" in str(caught.value)) == (workers > 1)
