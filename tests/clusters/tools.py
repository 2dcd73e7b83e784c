"""Test clusters by their scripts, and searches that are submitted to them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil

ROOT = Path(__file__).resolve().parents[2]
SEARCH = Path(__file__).with_name("search.py")
PATIENCE_S = 420.0
SMALL = ("--executor-memory", "512m", "--driver-memory", "512m")
"""Options of spark-submit that let several JVMs fit on one machine."""


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

    def submit(self, name: str, folder: Path, *arguments: object) -> Submitted:
        """Submit the search by one of the scripts; its folder is given to it."""
        return Submitted(["bash", str(ROOT / "scripts" / name), *map(str, arguments)], self._environment, folder)

    def reports(self, store: str) -> dict[str, list[tuple[int, float]]]:
        """Return the reports of each trial of a study, read in the environment that was packed."""
        python = ROOT / "dist" / "environment" / "bin" / "python"
        command = [str(python), str(SEARCH), "--read", store]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        return {trial: [(resource, values["loss"]) for resource, values in rows] for trial, rows in found.items()}


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

    def open(self) -> None:
        """Let the trials that wait go on."""
        (self.folder / "open").touch()

    def finish(self) -> str:
        """Wait for its end, and return its output.

        A submission that fails is shown with what it wrote.
        """
        try:
            code = self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not end:\n{self.output()[-4000:]}") from None
        assert code == 0, self.output()[-6000:]
        return self.output()

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


def require_whole(search: Submitted, reports: dict[str, list[tuple[int, float]]], *, lost: int = 0) -> None:
    """The study has found the best configuration, and trained at most ``lost`` units a second time."""
    assert [value for _, value in reports["trial-0"]] == [1 / unit for unit in range(1, 10)], "x=1 is the best"
    assert len(reports) == 9
    for found in reports.values():
        assert [resource for resource, _ in found] == list(range(1, len(found) + 1))
    counts = Counter((unit.trial, unit.unit) for unit in search.units())
    again = {unit: count for unit, count in counts.items() if count > 1}
    assert sum(count - 1 for count in again.values()) <= lost, f"trained again: {again}"
    assert {*counts} == {(trial, resource) for trial, found in reports.items() for resource, _ in found}


def java_of(container: str) -> psutil.Process:
    """Return the Java process of a container of YARN."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.name() == "java" and process.environ().get("CONTAINER_ID") == container:
                return process
    raise AssertionError(f"{container} has no Java process")
