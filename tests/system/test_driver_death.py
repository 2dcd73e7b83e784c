"""The driver killed and interrupted, as a script: the same command goes on where the journal ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from asyncsearch import Study
from asyncsearch.events import DriverStarted
from asyncsearch.journal.opening import read_records
from asyncsearch.trial import TrialState
from tests.shares import takes_long
from tests.system.tools import PATIENCE_S, require_committed_once, require_gone
from tests.system.trained import Gate

_started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _end_what_was_started() -> Iterator[None]:
    """Without it a driver would wait at its gate for good when an assertion fails."""
    yield
    for driver in _started:
        driver.kill()
        driver.wait()
    _started.clear()


def start(folder: Path) -> subprocess.Popen[str]:
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.system.search", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    _started.append(driver)
    return driver


def family(driver: subprocess.Popen[str]) -> list[int]:
    return [child.pid for child in psutil.Process(driver.pid).children(recursive=True)]


def end(driver: subprocess.Popen[str]) -> str:
    output, _ = driver.communicate(timeout=PATIENCE_S)
    return output


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path).make()


def test_a_killed_driver_resumes_by_the_same_command_and_leaves_no_process(gate: Gate, tmp_path: Path) -> None:
    driver = start(tmp_path)
    pids = gate.pids()
    processes = family(driver)
    assert set(pids) <= set(processes), "the runner that waits, and its agent"
    driver.kill()
    end(driver)
    require_gone(processes)
    before = {t.id: t.checkpoint for t in Study.open(tmp_path / "study").trials if t.checkpoint is not None}
    again = start(tmp_path)
    output = end(again)
    assert again.returncode == 0, output
    assert "best: 1" in output
    study = Study.open(tmp_path / "study")
    assert sum(isinstance(record.event, DriverStarted) for record in read_records(study.store)) == 2
    assert {trial.state for trial in study.trials} <= {TrialState.PAUSED, TrialState.COMPLETED}
    assert all(study.trials[number].resource >= ref.resource for number, ref in before.items())
    require_committed_once(Study.open(tmp_path / "study").store)


@pytest.mark.parametrize("presses", [pytest.param(1, marks=takes_long), 2])
def test_ctrl_c_keeps_results_ends_every_process_and_can_be_resumed(gate: Gate, tmp_path: Path, presses: int) -> None:
    driver = start(tmp_path)
    gate.pids()
    processes = family(driver)
    for _ in range(presses):
        os.kill(driver.pid, signal.SIGINT)
    if presses == 1:
        gate.open()
    output = end(driver)
    assert driver.returncode != 0
    assert "KeyboardInterrupt" in output
    require_gone(processes)
    again = start(tmp_path)
    output = end(again)
    assert "best: 1" in output
    require_committed_once(Study.open(tmp_path / "study").store)


def test_a_second_driver_cannot_open_a_study_that_is_running(gate: Gate, tmp_path: Path) -> None:
    driver = start(tmp_path)
    gate.pids()
    second = start(tmp_path)
    output = end(second)
    assert "StoreLockedError" in output
    assert str(driver.pid) in output
    gate.open()
    assert "best: 1" in end(driver)
