"""What a trial has started ends with its process, even if it has left its session."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from asyncsearch import Study, uniform
from asyncsearch.runner.process import lifeline
from asyncsearch.trainable import TrialContext
from tests.shares import first

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has processes that adopt orphans"),
    pytest.mark.skipif(shutil.which("setsid") is None, reason="needs util-linux"),
]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


class Daemon:
    """A process in a session of its own, whose parent has ended; it holds a pipe open while it lives."""

    def __init__(self, folder: Path) -> None:
        self.pipe, self.ready, self.known = folder / "pipe", folder / "ready", folder / "pid"

    def start(self) -> int:
        """Called by the trial: start it, and return its process id once it lives."""
        life = f"exec 3>'{self.pipe}'; echo $$ > '{self.ready}'; exec sleep 1000"
        subprocess.run(["sh", "-c", 'setsid sh -c "$0" > /dev/null 2>&1 &', life], check=True)
        self.known.write_text(self.ready.read_text())
        return int(self.known.read_text())

    def is_alive(self) -> bool:
        return psutil.pid_exists(int(self.known.read_text()))


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path)
    os.mkfifo(made.pipe)
    os.mkfifo(made.ready)
    reading = os.open(made.pipe, os.O_RDONLY | os.O_NONBLOCK)
    yield made
    poll = select.poll()
    poll.register(reading, select.POLLHUP)
    assert made.known.exists(), "it never lived"
    assert poll.poll(60_000), "it lives on"
    os.close(reading)


def run(train: Callable[[TrialContext], Any], folder: Path, trials: int = 1) -> Study:
    space = {"lr": uniform(0.0, 1.0)}
    study = Study(train, space=space, metric="x", mode="max", store=folder / "study", backend="processes")
    study.run(num_trials=trials, parallelism=1, display="none")
    return study


def test_a_daemon_ends_with_the_run(daemon: Daemon, tmp_path: Path) -> None:
    def train(trial: TrialContext) -> dict[str, float]:
        daemon.start()
        return {"x": 1.0}

    run(train, tmp_path)


@pytest.mark.parametrize("signal", first([9, 0, 11]))
def test_a_daemon_of_a_trial_that_died_ends_before_the_next_trial(daemon: Daemon, tmp_path: Path, signal: int) -> None:
    def train(trial: TrialContext) -> dict[str, float]:
        if trial.name == "trial-0":
            daemon.start()
            os.kill(os.getpid(), signal)
            os._exit(3)
        return {"x": float(daemon.is_alive())}

    assert run(train, tmp_path, trials=2).trials[1].value == 0.0


def test_a_daemon_ends_with_the_agent(daemon: Daemon, tmp_path: Path) -> None:
    def train(trial: TrialContext) -> dict[str, float]:
        if not daemon.known.exists():
            daemon.start()
            os.kill(psutil.Process(os.getppid()).ppid(), 9)
            select.poll().poll()
        return {"x": 1.0}

    run(train, tmp_path)


def test_a_daemon_ends_with_the_driver(daemon: Daemon, tmp_path: Path) -> None:
    code = """
import os, sys, psutil
from pathlib import Path
from tests.agent.test_daemons import Daemon, run

folder, driver = Path(sys.argv[1]), os.getpid()
daemon = Daemon(folder)

def train(trial):
    daemon.start()
    os.kill(driver, 9)
    return {"x": 1.0}

run(train, folder)
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path], env=ENVIRONMENT, check=False)
    assert done.returncode == -9


def test_every_descendant_is_killed_however_deep(tmp_path: Path) -> None:
    code = """
import os, sys, time
from asyncsearch.runner.process.lifeline import adopt_orphans, kill_children

adopt_orphans()
reading, writing = os.pipe()
alive, held = os.pipe()
if os.fork() == 0:
    for _ in range(6):
        os.fork()
        os.setsid() if os.getpgid(0) != os.getpid() else None
    os.close(alive)
    os.write(writing, b"x")
    time.sleep(1000)
os.close(writing), os.close(held)
for _ in range(64):
    os.read(reading, 1)
kill_children()
assert os.read(alive, 1) == b"", "nobody holds the other end any more"
try:
    os.wait()
except ChildProcessError:
    print("none is left")
"""
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"none is left\n"


def test_children_are_found_without_the_kernels_list(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "1000"]) as child:
        listed = lifeline._children()
        monkeypatch.setattr(lifeline, "_LIST", "/proc/{0}/none")
        assert child.pid in listed
        assert set(lifeline._children()) >= set(listed)
        child.kill()
