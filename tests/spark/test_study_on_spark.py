"""Whole searches on Spark: on a local session, and on a cluster of which an executor is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from asyncsearch import ASHA, FIFO, Study
from asyncsearch.errors import ClusterError, StudyExistsError
from asyncsearch.events import WorkerAttached, WorkerLost
from asyncsearch.journal.opening import read_records
from asyncsearch.trainable import TrialContext
from asyncsearch.trial import TrialState
from tests.launch.tools import PATIENCE_S
from tests.shares import seeds, takes_long
from tests.spark.cluster import StandaloneCluster, require_no_job, spark_session
from tests.system.tools import Gate, Running, make_study, make_trainable, require_gone
from tests.system.verdict_searches import require_algorithm_2

pytestmark = pytest.mark.spark
KEPT = {TrialState.PAUSED, TrialState.COMPLETED}


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path).make()


def executor_of(pid: int) -> int:
    """Return the executor's JVM above a process."""
    return next(p.pid for p in psutil.Process(pid).parents() if "CoarseGrainedExecutorBackend" in " ".join(p.cmdline()))


def require_whole(study: Study) -> None:
    assert [trial.params["x"] for trial in study.trials] == list(range(1, 10))
    assert {trial.state for trial in study.trials} <= KEPT
    assert study.best_trial.params == {"x": 1}
    assert study.best_trial.resource == 9


def writes_notes(trial: TrialContext) -> None:
    for epoch in trial.epochs(state={"done": {}}):
        with (trial.dir / "notes.txt").open("a") as file:
            file.write(f"{epoch} ")
        trial.report(loss=trial.params["x"] / epoch)


def test_what_trials_write_into_their_folders_comes_back_from_spark(tmp_path: Path) -> None:
    with spark_session("local[2]"):
        study = make_study(writes_notes, tmp_path / "study", backend="spark").run(display="none")
    assert any(trial.resource > 1 for trial in study.trials)
    for trial in study.trials:
        with study.trial_dir(trial) as folder:
            assert (folder / "notes.txt").read_text().split() == [str(unit) for unit in range(1, trial.resource + 1)]


def test_one_worker_promotes_as_algorithm_2_step_by_step(tmp_path: Path) -> None:
    with spark_session("local[1]"):
        require_algorithm_2(tmp_path, "spark", seeds(100, 100))


def test_a_killed_executor_costs_only_its_training_since_its_checkpoint(
    cluster: StandaloneCluster, gate: Gate, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with spark_session(cluster.url) as session:
        study = make_study(make_trainable(gate), tmp_path / "study", backend="spark")
        running = Running(study, display="plain")
        runner, agent = gate.pids()
        os.kill(executor_of(agent), signal.SIGKILL)
        require_whole(running.wait())
        require_gone([runner, agent])
        losses = [r.event for r in read_records(study.store) if isinstance(r.event, WorkerLost)]
        assert len(losses) == 1
        assert study.trials[0].trained <= 9 + 1
        assert sum(trial.losses for trial in study.trials) == 1
        [note] = [line for line in capsys.readouterr().out.splitlines() if " was lost: " in line]
        assert " was lost: its executor " in note
        assert "trial-0 goes on from its checkpoint at 3 units; " in note
        require_no_job(session)


def test_a_search_resumed_on_an_existing_session_leaves_it_and_no_job(tmp_path: Path) -> None:
    with spark_session("local[2]") as session:
        make_study(quick, tmp_path / "study", backend="auto", scheduler=ASHA(max_resource=9)).run(4, display="none")
        study = make_study(quick, tmp_path / "study", backend="auto", scheduler=ASHA(max_resource=9), resume=True)
        study.run(parallelism=2, display="none")
        require_whole(study)
        require_no_job(session)
        assert session.sparkContext.parallelize([1, 2], 2).sum() == 3


def test_workers_of_a_new_session_train_at_once_though_they_start_in_turn(tmp_path: Path) -> None:
    meeting = tmp_path / "meeting"
    os.mkfifo(meeting)

    def train(trial: Any) -> float:
        if trial.params["x"] <= 2:  # each is opened when the other one is
            os.close(os.open(meeting, os.O_RDONLY if trial.params["x"] == 1 else os.O_WRONLY))
        return float(trial.params["x"])

    with spark_session("local[2]"):
        study = make_study(train, tmp_path / "study", backend="spark", scheduler=FIFO())
        study.run(parallelism=2, display="none")
        attached = {r.event.worker for r in read_records(study.store) if isinstance(r.event, WorkerAttached)}
        assert attached == {0, 1}


def test_a_study_that_is_refused_leaves_no_job(tmp_path: Path) -> None:
    with spark_session("local[2]") as session:
        make_study(quick, tmp_path / "study", backend="spark").run(1, display="none")
        with pytest.raises(StudyExistsError):
            make_study(quick, tmp_path / "study", backend="spark").run(1, display="none")
        require_no_job(session)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            session.sparkContext._conf.set("spark.asyncsearch.driver.port", str(taken.getsockname()[1]))
            with pytest.raises(ClusterError, match="the port is taken"):
                make_study(quick, tmp_path / "other", backend="spark").run(1, display="none")
        require_no_job(session)
        assert session.sparkContext.parallelize([1, 2], 2).sum() == 3


_DRIVER = """
import sys
from pyspark.sql import SparkSession
from asyncsearch.launch.spark.launcher import SparkLauncher
session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
session.sparkContext.parallelize([1], 1).count()
launcher = SparkLauncher()
launcher.check(1)
launcher.warm_up(1)
print("begun", flush=True)
sys.stdin.read()
"""


def test_a_driver_killed_before_a_handover_leaves_no_process() -> None:
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with subprocess.Popen(
        [sys.executable, "-c", _DRIVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "begun\n"
        others = psutil.Process(driver.pid).children(recursive=True)
        assert any("pyspark.daemon" in " ".join(command_of(process)) for process in others)
        driver.kill()
    assert not psutil.wait_procs(others, timeout=PATIENCE_S)[1]


def command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has ended since it was listed
        return []


def quick(trial: Any) -> None:
    units: list[int] = []

    def load(path: Path) -> None:
        units.extend(map(int, path.read_text().split()))

    for unit in trial.epochs(save=lambda path: path.write_text(" ".join(map(str, units))), load=load):
        units.append(unit)
        assert units == list(range(1, unit + 1))
        trial.report(loss=trial.params["x"] / unit)


@pytest.mark.parametrize("script", ["digits_search.py", pytest.param("digits_torch.py", marks=takes_long)])
def test_the_digits_scripts_run_under_spark_submit_on_a_standalone_cluster(
    cluster: StandaloneCluster, script: str, tmp_path: Path
) -> None:
    if script == "digits_torch.py":
        pytest.importorskip("torch")
    from tests.spark.cluster import spark_home

    root = Path(__file__).parents[2]
    command = [
        str(spark_home() / "bin" / "spark-submit"), "--master", cluster.url,
        "--conf", "spark.ui.enabled=false", "--conf", "spark.log.level=ERROR", "--driver-memory", "512m",
        "--executor-memory", "512m", str(root / "scripts" / script),
        "--trials", "4", "--store", str(tmp_path / "study"),
    ]  # fmt: skip
    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(spark_home()),
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "trial-" in done.stdout
    study = Study.open(tmp_path / "study")
    assert len(study.trials) == 4
