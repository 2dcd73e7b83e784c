"""The process that follows a worn one has loaded the trainable before that retires, where no template can have."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from asyncsearch.agent.next_runner import NextRunner
from asyncsearch.agent.runner_process import RunnerProcess
from asyncsearch.events import Outcome
from asyncsearch.trainable import TrialContext
from tests.agent.driver import agent

LOOKS = 10_000


class Noted:
    """Notes each process that loads it; in the first, waits in one training until another one has loaded it."""

    def __init__(self, path: Path, waits_in: int, grown_bytes: int = 0) -> None:
        self.path, self.waits_in, self.grown_bytes = path, waits_in, grown_bytes
        self.held: list[bytes] = []

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        with self.path.open("a") as file:
            file.write(f"{os.getpid()}\n")

    def __call__(self, trial: TrialContext) -> None:
        self.held.append(b"x" * self.grown_bytes)
        if len(self.held) == self.waits_in and self.loaded()[0] == os.getpid():
            for _ in range(LOOKS):
                if self.has_happened():
                    break
                threading.Event().wait(0.01)  # a file cannot be waited for
            else:
                raise AssertionError("no other process has loaded it")
        trial.report(accuracy=os.getpid())

    def has_happened(self) -> bool:
        return len(self.loaded()) > 1

    def loaded(self) -> list[int]:
        return [int(line) for line in self.path.read_text().splitlines()]


@pytest.mark.parametrize("config", [{"recycle_after": 2}, {"fresh_process": True}], ids=str)
def test_next_process_loads_while_the_last_training_of_one_goes_on(tmp_path: Path, config: dict[str, Any]) -> None:
    last = config.get("recycle_after", 1)
    noted = Noted(tmp_path / "loaded", waits_in=last)
    with agent(noted, tmp_path, **config) as driver:
        pids = []
        for number in range(last + 1):
            driver.train(number)
            assert driver.end(number).outcome is Outcome.RETURNED
            pids.append(driver.values(number)[0][1])
    assert len({*pids[:last]}) == 1
    assert noted.loaded()[:2] == [pids[0], pids[last]]


def test_process_that_has_grown_trains_on_until_the_next_has_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, begun, number = NextRunner.begin, [], 0

    def noted(self: NextRunner, runner: RunnerProcess) -> bool:
        begun.append(number)
        return begin(self, runner)

    monkeypatch.setattr(NextRunner, "begin", noted)
    noted_loads = Noted(tmp_path / "loaded", waits_in=0, grown_bytes=20_000_000)
    with agent(noted_loads, tmp_path, recycle_growth_bytes=70_000_000) as driver:
        for number in range(1_000):  # read where the next process is begun
            driver.train(number)
            assert driver.end(number).outcome is Outcome.RETURNED
            if driver.values(number) != driver.values(0):
                break
            driver.wait(lambda before=driver.heartbeats: driver.heartbeats > before)  # type: ignore[misc]
        assert driver.values(begun[0] + 1) == driver.values(0)
    assert noted_loads.loaded()[1] == driver.values(number)[0][1]


def test_next_process_that_dies_as_it_loads_is_replaced_when_needed(tmp_path: Path) -> None:
    class Dies(Noted):
        def __setstate__(self, state: dict[str, Any]) -> None:
            super().__setstate__(state)
            if len(self.loaded()) == 2:
                os._exit(3)

        def has_happened(self) -> bool:  # its agent knows of its end once it is reaped
            return super().has_happened() and not psutil.pid_exists(self.loaded()[1])

    dies = Dies(tmp_path / "loaded", waits_in=1)
    with agent(dies, tmp_path, recycle_after=1) as driver:
        for number in range(2):
            driver.train(number)
            assert driver.end(number).outcome is Outcome.RETURNED
        assert driver.values(1)[0][1] not in dies.loaded()[:2]


def test_no_next_process_is_begun_where_the_preloading_was_refused(tmp_path: Path) -> None:
    noted = Noted(tmp_path / "loaded", waits_in=0)
    with agent(noted, tmp_path, recycle_after=1, preloads=False) as driver:
        driver.train(0)
        assert driver.end(0).outcome is Outcome.RETURNED
        driver.train(1)
        assert driver.end(1).outcome is Outcome.RETURNED
    assert noted.loaded()[1] == driver.values(1)[0][1]
