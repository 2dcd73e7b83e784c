"""Searches on a real HDFS: drivers killed or stopped inside an append, servers that go away and come back.

The test command runs one case of each kind of disturbance."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from asyncsearch import Study
from asyncsearch.errors import BeingWrittenError
from asyncsearch.events import CheckpointCommitted
from asyncsearch.journal.opening import read_records
from asyncsearch.store import open_store
from asyncsearch.trial import TrialState
from tests.faults.damages import ALL
from tests.store.hdfs_cluster import REPOSITORY, Hdfs, hdfs
from tests.store.hdfs_search import CONFIGURATIONS, UNITS

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
PATIENCE_S = 240.0
in_the_fault_command = pytest.mark.skipif(not ALL, reason="bash scripts/test_faults.sh runs it: it takes long")


class Search:
    """A search whose script is run until it has found the best configuration."""

    def __init__(self, folder: Path) -> None:
        self.cluster: Hdfs = hdfs()
        self.url = self.cluster.new()
        self.user = ""
        """Who searches; empty: who started the cluster."""
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

    def wait_for_output(self, words: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while words not in self.output():
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.05)  # a file cannot be waited for; nothing depends on how long this is

    def go_on(self, until: str = "") -> None:
        """Let it train on, and wait until it has said something."""
        (self._folder / "hold").unlink()
        self.wait_for_output(until)

    def finish(self, **order: object) -> None:
        assert self.start(**order).wait(PATIENCE_S) == 0, self.output()
        assert self.output().endswith("best: 1\n")

    def run_with(self, disturbance: Callable[[], object]) -> str:
        """Run it to its end, with a disturbance once the first records are durable; it trains on after ``go_on``."""
        gate = self._folder / "gate"
        os.mkfifo(gate)
        driver = self.start(gate=str(gate), hold=str(self._folder / "hold"))
        gate.read_text()
        disturbance()
        assert driver.wait(PATIENCE_S) == 0, self.output()
        return self.output()

    def require_whole(self) -> None:
        """Everything that was acknowledged is in the journal; nothing was trained twice, and no trial was charged."""
        store = open_store(self.url)
        journal = {line for name in store.journal_segments() for line in store.read_segment(name)}
        noted = self.witness.read_bytes().splitlines(keepends=True)
        assert not [line for line in noted if line.endswith(b"}\n") and line not in journal], "a durable record is gone"
        study = Study.open(self.url)
        assert [trial.params["x"] for trial in study.trials] == list(range(1, CONFIGURATIONS + 1))
        assert {trial.state for trial in study.trials} <= {TrialState.PAUSED, TrialState.COMPLETED}
        assert (study.best_trial.params, study.best_trial.resource) == ({"x": 1}, UNITS)
        for trial in study.trials:
            assert [resource for resource, _ in study.history(trial)] == list(range(1, trial.resource + 1))
            assert trial.failures == 0
        commits = [r.event.checkpoint for r in read_records(store) if isinstance(r.event, CheckpointCommitted)]
        assert len(commits) == len(set(commits)), "what was committed is not trained again"


@pytest.fixture
def search(tmp_path: Path) -> Search:
    return Search(tmp_path)


@pytest.mark.parametrize("append", [1, 8, 15] if ALL else [8])
def test_a_driver_killed_inside_an_append_loses_nothing(search: Search, append: int) -> None:
    assert search.start(kill_at=append).wait(PATIENCE_S) == -signal.SIGKILL
    store = open_store(search.url)
    if search.witness.read_bytes():
        with pytest.raises(BeingWrittenError):
            list(store.read_segment("000001.jsonl"))
        assert "its driver has died" in Study.open(search.url).summary()
    search.finish()
    search.require_whole()


def test_a_driver_stopped_inside_an_append_is_shut_out_by_the_one_that_took_over(search: Search) -> None:
    first = search.start(stop_at=9, lease_s=2.0)
    os.waitpid(first.pid, os.WUNTRACED)
    second = search.start(lease_s=2.0)
    while second.poll() is None and second.wait(PATIENCE_S) != 0:
        second = search.start(lease_s=2.0)  # the lease of the first one had not run out
    os.kill(first.pid, signal.SIGCONT)
    assert first.wait(PATIENCE_S) == 1, search.output()
    lost = [line for line in search.output().splitlines() if f"Process {first.pid} has lost the study at" in line]
    assert lost, search.output()
    assert f"to another driver, process {second.pid} on" in lost[-1], lost
    assert "org.apache" not in search.output()
    search.require_whole()


@in_the_fault_command
def test_a_namenode_that_is_restarted_is_waited_for(search: Search) -> None:
    def restart() -> None:
        search.cluster.call("kill-nn")
        try:
            search.go_on("the NameNode")
        finally:
            search.cluster.call("start-nn")

    require_waited(search, search.run_with(restart))


def set_safe_mode(cluster: Hdfs, _place: str, is_on: bool) -> None:
    cluster.call("safemode", "enter" if is_on else "leave")


def set_full(cluster: Hdfs, place: str, is_on: bool) -> None:
    cluster.set_space_quota(place, 1 if is_on else -1)


def set_read_only(cluster: Hdfs, place: str, is_on: bool) -> None:
    cluster.call("fs", "-chmod", "-R", "a-w" if is_on else "u+w", place)


@pytest.mark.parametrize(
    ("disturb", "words"),
    [
        pytest.param(set_safe_mode, "the NameNode is in safe mode", marks=in_the_fault_command, id="safe mode"),
        pytest.param(set_full, "the quota of that folder is used up", id="full"),
        pytest.param(set_read_only, "this user lacks the right to do that", marks=in_the_fault_command, id="read-only"),
    ],
)
def test_a_store_that_cannot_be_written_is_waited_for(
    search: Search, disturb: Callable[[Hdfs, str, bool], None], words: str
) -> None:
    search.url = f"{search.cluster.url}/ann-{uuid.uuid4().hex}"  # the top of the cluster is anybody's
    search.user = "ann"  # who has started the cluster may write whatever the rights are
    place = search.cluster.path(search.url)

    def go_through_it() -> None:
        disturb(search.cluster, place, True)
        try:
            search.go_on(words)
        finally:
            disturb(search.cluster, place, False)

    require_waited(search, search.run_with(go_through_it))


@in_the_fault_command
def test_a_datanode_that_dies_is_done_without(search: Search) -> None:
    def kill() -> None:
        search.cluster.call("kill-dn", "2")
        search.go_on()

    try:
        require_waited(search, search.run_with(kill))
    finally:
        search.cluster.call("start-dn", "2")


def require_waited(search: Search, output: str) -> None:
    """The search has come to its end, and no stack trace was shown."""
    assert "Traceback" not in output, output
    assert "org.apache" not in output, output
    search.require_whole()
