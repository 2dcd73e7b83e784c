"""Test clusters by their scripts, and searches that are submitted to them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from asyncsearch import Study
from asyncsearch.events import CheckpointCommitted
from asyncsearch.journal.opening import begin_reading, read_records
from tests.faults.accounts import require_accounted

ROOT = Path(__file__).resolve().parents[2]
SEARCH = Path(__file__).with_name("search.py")
PATIENCE_S = 420.0
SMALL = ("--executor-memory", "512m", "--driver-memory", "512m")
"""Options of spark-submit that let several JVMs fit on one machine."""

TWO_EXECUTORS = ("--conf", "spark.executor.instances=2")
"""Lets a search on a standalone cluster wait for the second executor, however long a busy machine takes to start it."""

ELASTIC = [
    word
    for setting in (
        "spark.dynamicAllocation.enabled=true",
        "spark.dynamicAllocation.shuffleTracking.enabled=true",
        "spark.dynamicAllocation.maxExecutors=3",
        "spark.executor.cores=1",
        "spark.decommission.enabled=true",
    )
    for word in ("--conf", setting)
]
"""Options of dynamic allocation, with executors of one slot."""


class Unit(NamedTuple):
    """A trained unit, as the trial has noted it."""

    trial: str
    unit: int
    executor: str


class Machine:
    """The clusters of one test run, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._environment = os.environ | {
            "ASYNCSEARCH_CLUSTER_DIR": str(folder),
            "PYTHON": sys.executable,
            "PYSPARK_PYTHON": "",
        }
        for name in ("HADOOP_CONF_DIR", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH", "SPARK_HOME"):
            self._environment.pop(name, None)

    def set(self, **environment: object) -> None:
        """Set variables in the environment of what is started from now on."""
        self._environment |= {name: str(value) for name, value in environment.items()}

    def pack(self) -> None:
        """Pack the environment; what is submitted from now on has the asyncsearch of this moment."""
        self._environment["ARCHIVE"] = self.script("pack_env.sh")

    def script(self, name: str, *arguments: object) -> str:
        """Run a script of a cluster, and return the last line that it prints."""
        return (self.lines(name, *arguments) or [""])[-1]

    def lines(self, name: str, *arguments: object) -> list[str]:
        """Run a script of a cluster, and return the lines that it prints."""
        command = ["bash", str(ROOT / "scripts" / name), *map(str, arguments)]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def submit(self, name: str, folder: Path, *arguments: object, **environment: str) -> Submitted:
        """Submit the search by one of the scripts; its folder is given to it."""
        command = ["bash", str(ROOT / "scripts" / name), *map(str, arguments)]
        return Submitted(command, self._environment | environment, folder)


class Submitted:
    """A search that runs on a cluster, and what it leaves in its folder."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        with (folder / "output").open("ab") as output:
            self._process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)

    def output(self) -> str:
        return (self.folder / "output").read_text(errors="replace")

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until something is so, while the search runs."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert self._process.poll() is None, f"it ended before {what}:\n{self.output()[-4000:]}"
            assert time.monotonic() < deadline, f"no {what} within {PATIENCE_S:.0f} s:\n{self.output()[-4000:]}"
            threading.Event().wait(0.2)

    def waiting(self) -> list[tuple[str, int, str]]:
        """Return (trial, process, executor) of the trials that wait, or have waited."""
        rows = [line.split() for line in self._lines("waiting")]
        return [(trial, int(pid), executor) for trial, pid, executor in rows]

    def units(self) -> list[Unit]:
        rows = [line.split() for line in self._lines("units")]
        return [Unit(trial, int(unit), executor) for trial, unit, executor in rows]

    def until_durable(self, store: str) -> None:
        """Wait until the checkpoint of each unit that was trained is durable; nothing is trained meanwhile."""
        self.until("their checkpoints", lambda: durable_checkpoints(store) == len(self.units()))

    def open(self) -> None:
        """Let the trials that wait go on."""
        (self.folder / "open").touch()

    def finish(self, code: int = 0) -> str:
        """Wait for its end, and return its output.

        A submission that ends with another code is shown with what it wrote.
        """
        try:
            ended = self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not end:\n{self.output()[-4000:]}") from None
        assert ended == code, self.output()[-6000:]
        return self.output()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        children = psutil.Process(self._process.pid).children(recursive=True)
        for kill in (*(child.kill for child in children), self._process.kill):
            with contextlib.suppress(psutil.NoSuchProcess):
                kill()
        self._process.wait()

    def __enter__(self) -> Submitted:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()

    def _lines(self, name: str) -> list[str]:
        path = self.folder / name
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [line for line in lines if line.endswith("\n")]


def reports_of(study: Study) -> dict[str, list[tuple[int, float]]]:
    """Return the durable reports of each trial."""
    return {
        trial.name: [(resource, float(metrics["loss"])) for resource, metrics in study.history(trial)]
        for trial in study.trials
    }


def durable_checkpoints(store: str) -> int:
    """Return how many checkpoints others can read of in the journal of a study, which may be running.

    A worker trains on while it uploads one: a unit has been trained and reported before nothing can take it away.
    """
    opened = Study.open(store).store
    records = read_records(opened, reader=begin_reading(opened))
    return sum(isinstance(record.event, CheckpointCommitted) for record in records)


def lost_attempts(store: str) -> int:
    """Return how often others can read that a trial has lost its process."""
    return sum(trial.losses for trial in Study.open(store).trials)


def require_whole(search: Submitted, store: str, *, lost: int = 0) -> Study:
    """The study is accounted for, has found the best configuration, and trained at most ``lost`` units again."""
    study = Study.open(store)
    require_accounted(study, range(1, 10), [1, 3, 9])
    reports = reports_of(study)
    assert [value for _, value in reports["trial-0"]] == [1 / unit for unit in range(1, 10)], "x=1 is the best"
    counts = Counter((unit.trial, unit.unit) for unit in search.units())
    again = {unit: count for unit, count in counts.items() if count > 1}
    assert sum(count - 1 for count in again.values()) <= lost, f"trained again: {again}"
    assert {*counts} == {(trial, resource) for trial, found in reports.items() for resource, _ in found}
    return study


def agent_of(runner: int) -> psutil.Process:
    """Return the agent of a runner, which a template of the agent's has forked."""
    return psutil.Process(psutil.Process(psutil.Process(runner).ppid()).ppid())


def until_gone(search: Submitted, processes: Sequence[psutil.Process]) -> None:
    """Wait until processes have ended, while the search runs."""
    search.until("the end of what was shut out", lambda: all(map(_is_gone, processes)))


def _is_gone(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    return True


def processes_of(container: str) -> list[psutil.Process]:
    """Return the processes of a container of YARN."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("CONTAINER_ID") == container:
                found.append(process)
    return found


def java_of(container: str) -> psutil.Process:
    """Return the Java process of a container of YARN."""
    return next(process for process in processes_of(container) if process.name() == "java")
