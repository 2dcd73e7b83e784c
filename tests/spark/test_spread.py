"""Workers, their check and what they share, on a real cluster of two executors with two slots each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asyncsearch.ids import WorkerId
from asyncsearch.launch.spark.launcher import SparkLauncher
from asyncsearch.launch.spark.task import TaskMode
from tests.launch.tools import Ends, config_for
from tests.shares import takes_long
from tests.spark.cluster import StandaloneCluster, require_no_job, spark_session

pytestmark = [pytest.mark.spark, pytest.mark.slow, takes_long]

RUNS, WORKERS, BUNDLE = 6, 2, b"bundle" * 1_000_000


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("spread")
    with StandaloneCluster(folder, cores=2) as cluster, spark_session(cluster.url) as made:
        yield made


def process_of_executor(folder: str) -> Any:
    """Return an agent that answers with its executor's process, once all workers have come."""

    def agent(config: Any) -> str:
        import os
        import time
        from pathlib import Path

        (Path(folder) / f"{config.worker}").touch()
        while len(list(Path(folder).iterdir())) < 2:  # ``WORKERS``: the function is sent by value
            time.sleep(0.01)
        return f"{os.getppid()} {len(config.bundle)}"

    return agent


@pytest.mark.parametrize("mode", list(TaskMode))
def test_two_workers_take_two_executors_each_time_and_leave_no_bundle(
    session: Any, mode: TaskMode, tmp_path: Path
) -> None:
    for number in range(RUNS):
        folder = tmp_path / str(number)
        folder.mkdir()
        ends = Ends()
        launcher = SparkLauncher(agent=process_of_executor(str(folder)), mode=mode)
        assert launcher.check(None).parallelism == 4

        def config(worker: WorkerId, epoch: int) -> Any:
            return msgspec.structs.replace(config_for(tmp_path, BUNDLE), worker=worker, epoch=epoch)

        launcher.start(config, ends)
        for worker in range(WORKERS):
            launcher.launch(WorkerId(worker), 1)
        found = [ends.reason().split() for _ in range(WORKERS)]
        launcher.stop(10.0)
        assert {int(size) for _, size in found} == {len(BUNDLE)}
        assert len({parent for parent, _ in found}) == WORKERS, f"run {number}: both on one executor"
    require_no_job(session)
    scratch = Path(session.sparkContext._temp_dir)
    assert not [file for file in scratch.rglob("*") if file.is_file() and file.stat().st_size >= len(BUNDLE)]


def test_the_check_is_one_task_an_executor_and_none_for_the_next_search(session: Any) -> None:
    status = session.sparkContext._jsc.sc().statusStore()

    def checks() -> list[int]:
        jobs = status.jobsList(None)
        found = [jobs.apply(index) for index in range(jobs.size())]
        return [int(job.numTasks()) for job in found if "check of the executors" in job.name()]

    for _ in range(2):
        launcher = SparkLauncher(mode=TaskMode.PLAIN)
        launcher.check(None)
        launcher.stop(0.0)
    assert checks() == [2]
