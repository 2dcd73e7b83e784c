"""Runs of the search on HDFS that is a script, and what must hold after each of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from asyncsearch import Study
from asyncsearch.store import open_store
from asyncsearch.trial import TrialState
from tests.faults.accounts import require_accounted, tell
from tests.store.hdfs_cluster import REPOSITORY, Hdfs, hdfs
from tests.store.hdfs_search import CONFIGURATIONS, UNITS
from tests.system.tools import require_committed_once

PATIENCE_S = 240.0
LEVELS = [1, 3, 9]


class Search:
    """A search whose script is run until it has found the best configuration."""

    def __init__(self, folder: Path) -> None:
        self.cluster: Hdfs = hdfs()
        self.url = self.cluster.new()
        self.user = ""
        """Who searches. Who started the cluster if empty."""
        self._folder = folder
        self.witness = folder / "witness"

    def start(self, **order: object) -> subprocess.Popen[str]:
        argument = msgspec.json.encode({"url": self.url, "witness": str(self.witness), **order}).decode()
        command = [sys.executable, "-m", "tests.store.hdfs_search", argument]
        environment = os.environ | ({"HADOOP_USER_NAME": self.user} if self.user else {})
        with (self._folder / "output").open("a") as output:  # not a pipe, which nobody empties
            return subprocess.Popen(
                command, cwd=REPOSITORY, env=environment, stdout=output, stderr=subprocess.STDOUT, text=True
            )

    def output(self) -> str:
        return (self._folder / "output").read_text()

    def trained(self) -> list[str]:
        """Return each trial and unit that was trained, whether or not a report of it has arrived."""
        path = Path(f"{self.witness}.units")
        return path.read_text().splitlines() if path.exists() else []

    def wait_until(self, is_awaited: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_awaited():
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.05)  # a file cannot be waited for; nothing depends on how long this is

    def go_on(self, until: str = "") -> None:
        """Let it train on, and wait until it has said something."""
        (self._folder / "hold").unlink()
        self.wait_until(lambda: until in self.output())

    def finish(self, **order: object) -> None:
        assert self.start(**order).wait(PATIENCE_S) == 0, self.output()
        assert self.output().endswith("best: 1\n")

    def run_with(self, disturbance: Callable[[], object], **order: object) -> str:
        """Run it to its end, with a disturbance once the first records are durable; it trains on after ``go_on``."""
        gate = self._folder / "gate"
        os.mkfifo(gate)
        driver = self.start(gate=str(gate), hold=str(self._folder / "hold"), **order)
        gate.read_text()
        disturbance()
        assert driver.wait(PATIENCE_S) == 0, self.output()
        return self.output()

    def require_kept(self) -> None:
        """Everything that was acknowledged is in the journal."""
        store = open_store(self.url)
        journal = {line for name in store.journal_segments() for line in store.read_segment(name)}
        noted = self.witness.read_bytes().splitlines(keepends=True)
        assert not [line for line in noted if line.endswith(b"}\n") and line not in journal], "a durable record is gone"

    def require_whole(self, *, is_trained_once: bool = True) -> Study:
        """Every trial, report and promotion is accounted for, and no trial was charged."""
        self.require_kept()
        study = Study.open(self.url)
        require_accounted(study, range(1, CONFIGURATIONS + 1), LEVELS)
        assert {trial.state for trial in study.trials} <= {TrialState.PAUSED, TrialState.COMPLETED}
        assert (study.best_trial.params, study.best_trial.resource) == ({"x": 1}, UNITS)
        if is_trained_once:
            require_committed_once(study.store)
        return study


def require_waited(search: Search, undisturbed: Study, name: str) -> None:
    """The search has come to its end, everything that HDFS answered was said in words, and say what it cost."""
    output = search.output()
    for sign in ("Traceback", "org.apache", "RPCError", "Check the address, the rights and the connection"):
        assert sign not in output, output
    tell(f"on HDFS, {name}", search.require_whole(), undisturbed)
