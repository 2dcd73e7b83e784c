"""Workers as queries of Spark Connect: they keep the laws of every launcher, and searches go as on a classic one."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from asyncsearch import ASHA, FIFO, TrialContext
from asyncsearch.doctor import examine
from asyncsearch.errors import NotEnoughSlotsError
from asyncsearch.events import WorkerLost
from asyncsearch.journal.opening import read_records
from asyncsearch.launch import is_spark_active
from asyncsearch.launch.base_launcher import Launcher
from asyncsearch.launch.spark.broadcast import MOST_SENT_BYTES, STORED
from asyncsearch.launch.spark.launcher import SparkLauncher
from asyncsearch.testing import LauncherTests
from tests.shares import takes_long
from tests.spark.cluster import require_no_job
from tests.spark.connect_server import connect_session, server_context
from tests.spark.test_local_session import require_whole
from tests.system.tools import Running, make_study, require_gone
from tests.system.trained import Gate, make_trainable
from tests.system.verdict_searches import require_algorithm_2

pytestmark = pytest.mark.spark
pytest.importorskip("grpc_status")


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[Any]:
    with connect_session() as made:
        yield made


class TestWorkersByConnect(LauncherTests):
    def make(self) -> Launcher:
        return SparkLauncher()


def require_no_query() -> None:
    require_no_job(SimpleNamespace(sparkContext=server_context()))


def test_a_lost_worker_of_connect_is_launched_anew(tmp_path: Path) -> None:
    assert is_spark_active()
    gate = Gate(tmp_path).make()
    study = make_study(make_trainable(gate), tmp_path / "study", backend="auto")
    running = Running(study)
    runner, agent = gate.pids()
    assert "pyspark.daemon" in " ".join(psutil.Process(agent).parent().cmdline())  # type: ignore[union-attr]
    os.kill(agent, signal.SIGKILL)
    require_whole(running.wait())
    require_gone([runner, agent])
    losses = [r.event for r in read_records(study.store) if isinstance(r.event, WorkerLost)]
    assert len(losses) == 1
    assert sum(trial.losses for trial in study.trials) == 1
    require_no_query()


def test_one_worker_of_connect_promotes_as_algorithm_2(tmp_path: Path) -> None:
    require_algorithm_2(tmp_path, "spark", range(1))


@takes_long  # the laws of launchers end workers too, by the same tags
def test_ctrl_c_leaves_no_query_and_the_next_run_goes_on(tmp_path: Path) -> None:
    gate = Gate(tmp_path).make()
    study = make_study(make_trainable(gate), tmp_path / "study", backend="spark", resume=True)
    runners: list[int] = []

    def press() -> None:
        runners.append(gate.pids()[0])
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        study.run(parallelism=2, display="none")
    require_no_query()
    require_gone(runners)  # Spark keeps the agent's process for other tasks
    require_whole(study.run(parallelism=2, display="none"))
    require_no_query()


def test_parallelism_is_asked_for_where_connect_does_not_say(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"spark.master": "yarn", "spark.executor.cores": "8", "spark.task.cpus": "2"}
    monkeypatch.setattr(type(session.conf), "getAll", property(lambda _: settings))
    with pytest.raises(NotEnoughSlotsError, match=r"run with parallelism=\.\.\..*\(4 each\).*the page Executors"):
        SparkLauncher().check(None)


@takes_long  # in one of four runs it waited for minutes, and why is not known
def test_a_session_that_its_server_closes_is_made_anew(session: Any, tmp_path: Path) -> None:
    other = type(session)(connection=session.client._builder)
    gate = Gate(tmp_path).make()
    study = make_study(make_trainable(gate), tmp_path / "study", backend=SparkLauncher(other))
    running = Running(study)
    gate.pids()
    other.client.release_session()  # ends its queries, too
    require_whole(running.wait())
    other.client.close()
    require_no_query()


@takes_long  # without a session: test_broadcast.py
def test_a_large_bundle_goes_through_the_store_and_leaves_nothing(tmp_path: Path) -> None:
    weights = os.urandom(MOST_SENT_BYTES + 1)

    def train(trial: TrialContext) -> float:
        return float(trial.params["x"] * len(weights))

    study = make_study(train, tmp_path / "study", backend="spark", scheduler=FIFO())
    study.run(2, parallelism=2, display="none")
    assert study.best_trial.value == len(weights)
    assert not list((tmp_path / "study").glob(f"{STORED}*"))


def test_the_doctor_asks_the_executors_of_connect(tmp_path: Path) -> None:
    found = str(examine(tmp_path / "study"))
    assert "executors: all connect to the driver at 127.0.0.1:" in found
    assert "3 slots, so up to 3 workers (parallelism=3)" in found
    assert "fault" not in found


@takes_long  # on a classic session: tests/gangs/test_spark.py
def test_a_gang_of_connect_trains_as_one_worker(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from tests.gangs.searches import grid, line_weights, linear, require_same

    alone = grid(linear(), tmp_path / "alone", None, 6, backend="inline", scheduler=ASHA(max_resource=9))
    together = grid(linear(), tmp_path / "together", 2, 6, scheduler=ASHA(max_resource=9), backend="spark")
    alone.run(display="none")
    require_same(together.run(parallelism=2, display="none"), alone, line_weights)


@takes_long  # on a classic session: tests/packing/test_joins.py
def test_a_pack_by_connect_has_the_results_of_lone_trainings(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from tests.packing.joined_searches import require_results_of_lone_trainings, search
    from tests.packing.test_torch_units import Blobs

    found = search(Blobs, tmp_path / "study", backend="spark").run(12, parallelism=1, display="none")
    require_results_of_lone_trainings(found, Blobs, tmp_path)
