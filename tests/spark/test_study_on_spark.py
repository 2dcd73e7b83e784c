"""Whole searches on Spark: on a local session, and by spark-submit on a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from asyncsearch import FIFO, Study
from asyncsearch.events import WorkerAttached
from asyncsearch.journal.opening import read_records
from asyncsearch.trial import TrialState
from tests.launch.tools import PATIENCE_S
from tests.shares import seeds, takes_long
from tests.spark.cluster import FAST_START, StandaloneCluster, spark_home, spark_session
from tests.system.tools import make_study
from tests.system.verdict_searches import require_algorithm_2

pytestmark = pytest.mark.spark
KEPT = {TrialState.PAUSED, TrialState.COMPLETED}


def test_one_worker_promotes_as_algorithm_2_step_by_step(tmp_path: Path) -> None:
    with spark_session("local[1]"):
        require_algorithm_2(tmp_path, "spark", seeds(100, 100))


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


@pytest.mark.parametrize("script", ["digits_search.py", pytest.param("digits_torch.py", marks=takes_long)])
def test_the_digits_scripts_run_under_spark_submit_on_a_standalone_cluster(
    cluster: StandaloneCluster, script: str, tmp_path: Path
) -> None:
    if script == "digits_torch.py":
        pytest.importorskip("torch")
    root = Path(__file__).parents[2]
    # One of the two executors, whose Java and imports take longer than the trials.
    command = [
        str(spark_home() / "bin" / "spark-submit"), "--master", cluster.url, "--total-executor-cores", "1",
        "--conf", "spark.ui.enabled=false", "--conf", "spark.log.level=ERROR", "--driver-memory", "512m",
        "--conf", f"spark.executor.extraJavaOptions={FAST_START}",
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
