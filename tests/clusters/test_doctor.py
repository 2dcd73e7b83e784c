"""The doctor as a job of a standalone cluster, with a store on HDFS: what it finds is so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters.tools import ROOT, SMALL, Machine

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

AHEAD = """
import time
now = time.time
time.time = lambda: now() + 60
"""


@pytest.fixture(scope="module")
def two_slots(machine: Machine) -> Iterator[str]:
    """Return the URL of a standalone cluster with one Worker of two cores, so that all slots come at once."""
    yield machine.script("spark_cluster.sh", "start", 1, "--cores", 2)
    machine.script("spark_cluster.sh", "stop", "--remove")


def examine(machine: Machine, folder: Path, store: str, *options: str, code: int = 0, **environment: str) -> list[str]:
    """Return the lines of the doctor."""
    command = (*SMALL, *options, ROOT / "scripts" / "doctor.py", store)
    with machine.submit("submit_standalone.sh", folder, *command, **environment) as job:
        lines = job.finish(code).splitlines()
    return [line for line in lines if line.startswith(("ok ", "warning ", "fault ", "        change: "))]


def starting(lines: list[str], words: str) -> list[str]:
    return [line for line in lines if line.startswith(words)]


def test_a_cluster_that_is_well_has_no_fault(machine: Machine, two_slots: str, hdfs: str, tmp_path: Path) -> None:
    store = f"{hdfs}/{tmp_path.name}"
    said = examine(machine, tmp_path, store)
    assert starting(said, "ok      Spark: 2 slots, so up to 2 workers (parallelism=2)")
    assert starting(said, "ok      executors: the packages that workers need are those of the driver")
    assert starting(said, "ok      executors: all connect to the driver at localhost:")
    assert starting(said, f"ok      store {store}: all executors asked can read and write it")
    assert [line for line in said if f"store {store}: a durable record of the journal takes " in line]
    [python] = starting(said, "ok      executors: Python ")
    assert "2 tasks on 1 machine asked" in python
    assert not starting(said, "fault"), said
    assert not [line for line in said if "clock" in line], "all clocks are one"
    assert machine.script("hdfs.sh", "fs", "-ls", store) == "", "what it wrote is removed"


def test_a_clock_ahead_and_an_unwritable_store_are_found(
    machine: Machine, two_slots: str, hdfs: str, tmp_path: Path
) -> None:
    """Its user is ann, for whom the folder of another user is closed."""
    (tmp_path / "sitecustomize.py").write_text(AHEAD)
    store = f"{hdfs}/{tmp_path.name}"
    machine.script("hdfs.sh", "fs", "-mkdir", store)
    option = f"spark.executorEnv.PYTHONPATH={tmp_path}"
    said = examine(machine, tmp_path, store, "--conf", option, code=1, HADOOP_USER_NAME="ann")
    [clock] = [line for line in said if "the clock of" in line]
    assert clock.startswith("warning executors: ")
    assert " 60.0 s ahead of the driver's" in clock
    [refused] = starting(said, "fault   ")
    assert refused == f"fault   store {store}: could not make folders"
    assert [line for line in said if "lacks the right" in line]
    assert starting(said, "ok      Spark: 2 slots")
