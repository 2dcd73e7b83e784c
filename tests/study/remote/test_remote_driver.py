"""A search whose driver is a task of the cluster: nothing acknowledged is lost, whichever part of it is killed."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from asyncsearch import Study
from asyncsearch.errors import ClusterError, StudyExistsError
from asyncsearch.events import DriverStarted, WorkerLost
from asyncsearch.journal.opening import read_records
from asyncsearch.launch.base_launcher import Preflight
from asyncsearch.launch.remote.meeting import FOLDER
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store
from asyncsearch.study.remote import client, following
from asyncsearch.study.remote.board import BOARD, BoardDisplay, BoardReader, read_board
from asyncsearch.study.remote.following import goes_on
from asyncsearch.study.remote.kept_tasks import DISMISSED
from tests.faults.accounts import losses, require_accounted, wait_until
from tests.shares import takes_long
from tests.study.remote.process_cluster import ProcessCluster, ProcessTasks
from tests.system.tools import Running, make_study, require_gone
from tests.system.trained import Gate, make_trainable

CONFIGURATIONS, LEVELS = range(1, 10), (1, 3, 9)


def drivers(study: Study) -> int:
    return sum(isinstance(record.event, DriverStarted) for record in read_records(study.store))


def require_nothing_left(study: Study, cluster: ProcessCluster) -> None:
    assert not cluster.tasks.running
    assert not (Path(study.store.url) / FOLDER).exists()


def test_another_driver_goes_on_when_one_is_killed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    gate, cluster = Gate(tmp_path).make(), ProcessCluster(2)
    study = make_study(make_trainable(gate), tmp_path / "study", backend=cluster)
    running = Running(study, display="plain")
    gate.pids()
    assert not [one for one in psutil.net_connections("tcp") if (one.pid, one.status) == (os.getpid(), "LISTEN")]
    assert cluster.tasks.kill("driver") == 1
    running.wait()
    require_accounted(study, CONFIGURATIONS, LEVELS)
    assert drivers(study) == 2
    assert sum(tag.startswith("driver") for tag in cluster.tasks.begun) == 2
    require_nothing_left(study, cluster)
    said = capfd.readouterr().out
    assert "The search's driver was lost (its process ended with -9): another one goes on" in said
    assert "9 configurations tried" in said


@takes_long  # a driver that is killed takes its workers along, which are begun anew too
def test_a_killed_worker_is_replaced_by_the_client(tmp_path: Path) -> None:
    gate, cluster = Gate(tmp_path).make(), ProcessCluster(2)
    study = make_study(make_trainable(gate), tmp_path / "study", backend=cluster)
    running = Running(study)
    runner, agent = gate.pids()
    os.kill(agent, signal.SIGKILL)
    running.wait()
    require_gone([runner, agent])
    require_accounted(study, CONFIGURATIONS, LEVELS)
    assert [loss.reason for loss in losses(study)] == ["its task is gone: it was killed, or its executor was lost"]
    assert drivers(study) == 1
    require_nothing_left(study, cluster)


@takes_long
def test_ctrl_c_ends_a_driver_in_the_cluster_in_order(tmp_path: Path) -> None:
    gate, cluster = Gate(tmp_path).make(), ProcessCluster(2)
    study = make_study(make_trainable(gate), tmp_path / "study", backend=cluster)

    def press() -> None:
        gate.pids()
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        study.run(display="none")
    assert not cluster.tasks.running
    assert not any(isinstance(record.event, WorkerLost) for record in read_records(study.store))
    require_accounted(study.run(display="none"), CONFIGURATIONS, LEVELS)
    require_nothing_left(study, cluster)


class FullTasks(ProcessTasks):
    """They have no slot, and something happens to the client while the driver waits for one."""

    def __init__(self, happens: Callable[[], object]) -> None:
        super().__init__(0)
        self._happens = happens
        self._is_heard = threading.Event()
        self.is_cancelled = False

    def drive(self, content: bytes, tag: str) -> str:
        self._happens()
        self.is_cancelled = self._is_heard.wait(60)
        raise RuntimeError("it was cancelled")

    def cancel(self, tag: str) -> None:
        self._is_heard.set()


def test_ctrl_c_ends_a_driver_that_waits_for_a_slot_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_STOPPED_WITHIN_S", math.inf)
    cluster = ProcessCluster(2)
    cluster.tasks = tasks = FullTasks(lambda: signal.raise_signal(signal.SIGINT))
    study = make_study(make_trainable(Gate(tmp_path)), tmp_path / "study", backend=cluster)
    with pytest.raises(KeyboardInterrupt):
        study.run(display="none")
    assert tasks.is_cancelled


def test_a_display_that_fails_leaves_no_driver_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(reader: BoardReader, driver: str) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(BoardReader, "look", fail)
    cluster = ProcessCluster(2)
    cluster.tasks = tasks = FullTasks(lambda: None)
    study = make_study(make_trainable(Gate(tmp_path)), tmp_path / "study", backend=cluster)
    with pytest.raises(ZeroDivisionError):
        study.run(display="none")
    assert tasks.is_cancelled


@takes_long
def test_a_driver_that_counts_as_lost_and_goes_on_is_followed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    gate, cluster = Gate(tmp_path).make(), ProcessCluster(2, slots=4)
    study = make_study(make_trainable(gate), tmp_path / "study", backend=cluster)
    running = Running(study, display="plain")
    gate.pids()
    alone = cluster.tasks.lose_sight_of("driver")
    while "this run follows it" not in capfd.readouterr().out:
        assert alone.poll() is None
        time.sleep(0.1)  # what is printed cannot be waited for; nothing depends on how long this is
    gate.open()
    require_accounted(running.wait(), CONFIGURATIONS, LEVELS)
    assert alone.wait() == 0
    assert not losses(study)
    require_nothing_left(study, cluster)


@takes_long
def test_workers_without_a_slot_are_told_of_and_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(client, "_SLOT_SHOWN_AFTER_S", 0.5)
    cluster = ProcessCluster(2, slots=2)
    study = make_study(make_trainable(Gate(tmp_path), trial_id=-1), tmp_path / "study", backend=cluster)
    require_accounted(study.run(display="plain"), CONFIGURATIONS, LEVELS)
    assert "1 task of workers without a slot: other jobs hold" in capfd.readouterr().out
    require_nothing_left(study, cluster)


class Elsewhere(ProcessTasks):
    """A cluster that has another folder where the client has the store."""

    def drive(self, content: bytes, tag: str) -> str:
        [sent] = self.store.list(FOLDER)
        self.store.remove(f"{FOLDER}/{sent}")
        return super().drive(content, tag)

    store: Store


def test_a_store_that_the_cluster_does_not_see_is_refused(tmp_path: Path) -> None:
    cluster = ProcessCluster(2)
    study = make_study(make_trainable(Gate(tmp_path)), tmp_path / "study", backend=cluster)
    cluster.tasks = Elsewhere(3)
    cluster.tasks.store = study.store
    with pytest.raises(ClusterError, match=r"runs in the cluster, on 127.0.0.1, where.*Study\(\.\.\., store='hdfs://"):
        study.run(display="none")


def test_callbacks_which_a_driver_elsewhere_cannot_call_are_refused(tmp_path: Path) -> None:
    cluster = ProcessCluster(2)
    study = make_study(make_trainable(Gate(tmp_path)), tmp_path / "study", backend=cluster)
    with pytest.raises(ClusterError, match=r"callbacks=.* need a driver that executors reach\. Leave out backend="):
        study.run(display="none", callbacks=lambda *_: None)
    assert cluster.tasks.begun == []
    assert not (tmp_path / "study").exists()


class LookedAtError(Exception):
    """The executors are looked at."""


class FullCluster(ProcessCluster):
    """Its tasks hold all slots as long as a driver runs."""

    store: Store

    def check(self, parallelism: int | None) -> Preflight:
        assert not goes_on(read_board(self.store)), "a look at the executors would wait for a slot"
        if isinstance(self.tasks, IdleTasks):
            raise LookedAtError
        return super().check(parallelism)


class IdleTasks(ProcessTasks):
    """Their workers meet nobody."""

    def work(self, store: Store, tag: str) -> str:
        return DISMISSED


def test_a_driver_is_followed_before_the_executors_are_looked_at(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster, store = FullCluster(2), open_store(tmp_path / "study")
    cluster.store, cluster.tasks = store, IdleTasks(0)
    store.prepare()
    study = make_study(make_trainable(Gate(tmp_path)), tmp_path / "study", backend=cluster, resume=True)
    with store.lock():
        board = BoardDisplay(store, "of another client", logs=False, is_shown=True, stop=lambda: None)
        while read_board(store) is None:
            time.sleep(0.1)  # a file cannot be waited for; nothing depends on how long this is
        running = Running(study, display="plain")
        while "this run follows it" not in capfd.readouterr().out:
            assert running.error is None
            board.warn(["It goes on."])
            time.sleep(0.1)  # what is printed cannot be waited for; nothing depends on how long this is
        board.end()
    with pytest.raises(LookedAtError):
        running.wait()


_CLIENT = """
import sys
from pathlib import Path
from tests.study.remote.process_cluster import ProcessCluster
from tests.system.tools import make_study
from tests.system.trained import Gate, make_trainable

folder = Path(sys.argv[1])
make_study(make_trainable(Gate(folder)), folder / "study", backend=ProcessCluster(2)).run(display="none")
"""


@takes_long
def test_another_client_follows_the_driver_of_one_that_died(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    gate = Gate(tmp_path).make()
    client = subprocess.Popen([sys.executable, "-c", _CLIENT, str(tmp_path)], start_new_session=True)
    gate.pids()
    client.kill()
    client.wait()
    cluster = FullCluster(2)
    cluster.store = open_store(tmp_path / "study")
    with pytest.raises(StudyExistsError, match="holds a study whose driver runs in the cluster"):
        make_study(make_trainable(gate), tmp_path / "study", backend=cluster).run(display="none")
    study = make_study(make_trainable(gate), tmp_path / "study", backend=cluster, resume=True)
    running = Running(study, display="plain")
    wait_until(study, lambda event: isinstance(event, DriverStarted))
    gate.open()
    running.wait()
    require_accounted(study, CONFIGURATIONS, LEVELS)
    assert "A driver of this search runs in the cluster already" in capfd.readouterr().out
    assert drivers(study) <= 2  # the follower's own finds nothing left to do
    assert not losses(study)
    require_nothing_left(study, cluster)
    assert study.store.read(BOARD) is None
