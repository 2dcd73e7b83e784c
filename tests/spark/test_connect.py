"""Workers as queries of Spark Connect: they keep the laws of every launcher, and searches go as on a classic one."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from asyncsearch import ASHA, Study, TrialContext, uniform
from asyncsearch.doctor import examine
from asyncsearch.errors import ClusterError, NotEnoughSlotsError, UsageError
from asyncsearch.events import DriverStarted, WorkerLost
from asyncsearch.ids import WorkerId
from asyncsearch.journal.opening import read_records
from asyncsearch.launch import is_spark_active
from asyncsearch.launch.base_launcher import Launcher
from asyncsearch.launch.spark.connect import ConnectSpark
from asyncsearch.launch.spark.job_ends import TAG, query_failure
from asyncsearch.launch.spark.launcher import SparkLauncher
from asyncsearch.launch.spark.preflight import HOST_KEY
from asyncsearch.launch.spark.trial_jobs import ConnectJobs
from asyncsearch.launch.trial_jobs import JobNames
from asyncsearch.testing import LauncherTests
from tests.faults.accounts import require_accounted
from tests.launch.tools import Ends, Line, config_for
from tests.scripts.tools import imported
from tests.shares import takes_long
from tests.spark.cluster import require_jobs, require_no_job
from tests.spark.connect_server import connect_session, server_context
from tests.spark.long_jobs import long_job, press_ctrl_c_when, search_with_a_verdict
from tests.spark.test_session_of_driver import require_promoted
from tests.spark.test_spark_launcher import endless
from tests.system.tools import PATIENCE_S, Running, make_study, require_gone, require_whole
from tests.system.trained import Gate, make_trainable
from tests.system.verdict_searches import require_algorithm_2

pytestmark = pytest.mark.spark
pytest.importorskip("grpc_status")


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[Any]:
    with connect_session() as made:
        made.range(1).collect()  # on a busy machine Java's first query takes longer than the laws have patience
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


def test_devices_that_no_executor_has_are_refused(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(session.conf), "getAll", property(lambda _: {"spark.master": "yarn"}))
    with pytest.raises(UsageError, match=r"start the Spark Connect server with spark\.task\.resource\.gpu\.amount=1, "):
        SparkLauncher().devices(1)


def test_a_session_that_is_found_closed_by_a_cancellation_is_made_anew(session: Any) -> None:
    other = type(session)(connection=session.client._builder)
    spark = ConnectSpark(other)
    other.client._server_session_id = "of a server before"
    spark.cancel(f"{TAG}none")
    for thread in [one for one in threading.enumerate() if one.name == "asyncsearch-cancel"]:
        thread.join(PATIENCE_S)
    assert spark.session.range(3).count() == 3
    spark.close()
    other.client.close()


def test_only_a_server_of_another_process_is_asked_for_its_python(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def ask(*what: object) -> str:
        asked.append(what)
        return ""

    monkeypatch.setattr("asyncsearch.launch.spark.preflight._check_new_executors", ask)
    SparkLauncher().check(1)
    assert not asked
    settings = {**session.conf.getAll, "spark.app.id": "another"}
    monkeypatch.setattr(type(session.conf), "getAll", property(lambda _: settings))
    SparkLauncher().check(1)
    assert asked


@pytest.fixture
def unreachable(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let executors look for this process where it is not."""
    settings = {**session.conf.getAll, HOST_KEY: "nowhere.invalid"}
    monkeypatch.setattr(type(session.conf), "getAll", property(lambda _: settings))
    monkeypatch.setattr(ConnectSpark, "is_local", False)
    monkeypatch.setattr(ConnectSpark, "examined", property(lambda _: set()))  # none was found fit before


@pytest.mark.usefixtures("unreachable")
def test_the_driver_goes_to_executors_that_do_not_reach_it() -> None:
    launcher = SparkLauncher()
    found = launcher.check(None)
    launcher.stop(0.0)
    assert found.is_remote
    assert found.parallelism == 2  # and a slot of the driver
    words = r"Executors do not reach this process at nowhere\.invalid:\d+.*So the driver of this search is a task"
    assert re.match(words, found.warnings[0])
    with pytest.raises(NotEnoughSlotsError, match=r"4 slots are needed, and local\[3\] has 3. Use parallelism=2\."):
        SparkLauncher().check(3)


@pytest.mark.usefixtures("unreachable")
def test_a_classic_driver_stays_where_nobody_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConnectSpark, "has_detached_tasks", False)
    with pytest.raises(ClusterError, match=r"do not reach this process.*Set spark\.asyncsearch\.driver\.host"):
        SparkLauncher().check(2)


@takes_long  # without Spark: tests/study/remote
@pytest.mark.usefixtures("unreachable")
def test_a_driver_by_connect_is_replaced_when_it_is_killed(tmp_path: Path) -> None:
    gate = Gate(tmp_path).make()
    study = make_study(make_trainable(gate), tmp_path / "study", backend="auto")
    running = Running(study)
    gate.pids()
    driver = json.loads((tmp_path / "study" / "driver.json").read_text())["pid"]
    assert driver != os.getpid()
    os.kill(driver, signal.SIGKILL)
    running.wait()
    require_accounted(study, range(1, 10), (1, 3, 9))
    assert sum(isinstance(record.event, DriverStarted) for record in read_records(study.store)) == 2
    require_no_query()


def test_the_next_client_ends_the_queries_of_one_that_died(session: Any, tmp_path: Path) -> None:
    line, ends = Line(tmp_path / "line"), Ends()
    dead, other = SparkLauncher(agent=endless(line.path)), type(session)(connection=session.client._builder)
    later = SparkLauncher(other)
    try:
        dead.check(1)
        dead.start(lambda worker, epoch: config_for(tmp_path), ends)
        dead.launch(WorkerId(0), 1)
        line.hear()
        later.check(1)
        later.end_tasks_of(dead.tasks_note())
        assert "cancelled" in ends.reason()
    finally:
        later.stop(0.0)
        dead.stop(0.0)
        other.client.close()
    require_no_query()


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


def test_a_trial_in_a_thread_is_stopped_with_its_query_of_connect(session: Any, tmp_path: Path) -> None:
    unwound: list[str] = []

    def train(trial: TrialContext) -> None:
        trial.report(value=1.0, resource=1)
        try:
            long_job(session)
        finally:
            unwound.append(trial.name)

    space = {"x": uniform(0, 1)}  # of equal trials only one would be trained
    study = Study(train, space=space, metric="value", mode="max", store=tmp_path, backend="threads")
    jobs = server_context().statusTracker()
    failures = press_ctrl_c_when(lambda: len(jobs.getActiveJobsIds()) == 2)
    with pytest.raises(KeyboardInterrupt):
        study.run(num_trials=2, parallelism=2, display="none")
    assert failures == []
    require_no_query()
    assert sorted(unwound) == ["trial-0", "trial-1"]
    assert [(trial.value, trial.state.name) for trial in study.trials] == [(1.0, "WAITING")] * 2


@takes_long  # on a classic session: test_session_of_driver.py
def test_a_verdict_interrupts_the_query_of_its_trial(session: Any, tmp_path: Path) -> None:
    search_with_a_verdict(session, tmp_path)
    require_no_query()


@takes_long  # of workers: the test on the next client
def test_the_next_driver_ends_the_queries_of_trials_in_threads(session: Any) -> None:
    dead, ends = type(session)(connection=session.client._builder), Ends()

    def train() -> None:
        jobs = ConnectJobs(dead)
        jobs.enter(JobNames("of this trial", "pool", "trial-0"))
        try:
            long_job(dead)
        except Exception as error:
            ends(WorkerId(0), 1, query_failure(error))

    threading.Thread(target=train, daemon=True).start()
    require_jobs(SimpleNamespace(sparkContext=server_context()), 1)
    ConnectJobs(session).end_noted(ConnectJobs(dead).note())
    assert ends.reason() == "its Spark job was cancelled"
    dead.client.close()
    require_no_query()


@takes_long  # on a classic session: test_session_of_driver.py
def test_the_pipelines_of_spark_ml_are_tuned_by_connect(session: Any, tmp_path: Path) -> None:
    script = imported("digits_spark_ml")
    study = script.make_study(script.digits(session, images=80), tmp_path)
    require_promoted(study.run(num_trials=2, parallelism=2, display="none"))
    require_no_query()
