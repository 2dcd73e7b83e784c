"""Workers as Spark tasks on a real session: what they get, how their end is told, and that nothing is left behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.ids import WorkerId
from asyncsearch.launch import choose
from asyncsearch.launch.base_launcher import AgentFunction
from asyncsearch.launch.spark.launcher import SparkLauncher
from asyncsearch.launch.spark.session import Spark
from asyncsearch.launch.spark.task import RUN_AGAIN, Handover, PipeAddress, TaskMode
from tests.launch.tools import TOKEN, Ends, Line, config_for
from tests.spark.cluster import require_jobs, require_no_job, spark_session

pytestmark = pytest.mark.spark

W0, W1 = WorkerId(0), WorkerId(1)


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with spark_session("local[2]") as made:
        yield made


@pytest.fixture
def ends() -> Ends:
    return Ends()


@pytest.fixture
def spark(session: Any, ends: Ends, tmp_path: Path) -> Iterator[Any]:
    """Start launchers of agents; after the test, no job of theirs may be active."""
    launchers: list[SparkLauncher] = []

    def started(agent: AgentFunction, *, spares: int = 0, **options: Any) -> SparkLauncher:
        launcher = SparkLauncher(agent=agent, **{"study": "digits", **options})
        launchers.append(launcher)
        launcher.check(2)
        launcher.warm_up(spares)
        launcher.start(lambda worker, epoch: config_for(tmp_path), ends)
        return launcher

    yield started
    for launcher in launchers:
        launcher.stop(0.0)
    require_no_job(session)


def endless(*lines: str) -> AgentFunction:
    """Return an agent that says its process id on the line of its worker and does not end."""

    def agent(config: Any) -> str:
        import os
        import signal

        os.write(os.open(lines[config.worker], os.O_WRONLY), str(os.getpid()).encode())
        while True:
            signal.pause()

    return agent


def test_active_session_is_joined_and_not_stopped(session: Any) -> None:
    launcher = choose("auto")
    assert launcher.name == "spark"
    preflight = launcher.check(None)
    assert (preflight.parallelism, preflight.host, preflight.bind) == (2, "127.0.0.1", "127.0.0.1")
    launcher.stop(0.0)
    assert session.sparkContext.parallelize([1, 2]).sum() == 3


@pytest.mark.parametrize("mode", list(TaskMode))
def test_agent_runs_in_a_tasks_main_thread_and_its_last_words_are_shown(spark: Any, ends: Ends, mode: TaskMode) -> None:
    def agent(config: Any) -> str:
        import threading

        from pyspark import BarrierTaskContext, TaskContext

        is_barrier = isinstance(TaskContext.get(), BarrierTaskContext)
        return f"{threading.current_thread().name} {is_barrier} {config.endpoint.token}"

    spark(agent, mode=mode).launch(W0, 3)
    assert ends.next() == (0, 3, f"MainThread {mode is TaskMode.INDEPENDENT} {TOKEN}")


def test_job_says_in_sparks_pages_what_it_is(spark: Any, ends: Ends, session: Any, tmp_path: Path) -> None:
    line = Line(tmp_path / "line")
    spark(endless(line.path)).launch(W0, 1)
    line.hear()
    require_jobs(session, 1, "asyncsearch: digits worker-0 epoch 1")
    [job] = session.sparkContext.statusTracker().getActiveJobsIds()
    data = session.sparkContext._jsc.sc().statusStore().job(job)
    assert "asyncsearch-digits-" in data.jobTags().mkString(" ")
    stage = session.sparkContext._jsc.sc().statusStore().lastStageAttempt(int(data.stageIds().mkString(",")))
    assert {data.name(), stage.name(), stage.description().get()} == {"asyncsearch: digits worker-0 epoch 1"}
    group = data.jobGroup().get()
    assert group.startswith("asyncsearch-digits-")
    assert group.endswith("worker-0.1")


def test_a_launch_takes_the_task_begun_for_it_and_the_next_begins_another(
    spark: Any, ends: Ends, session: Any, tmp_path: Path
) -> None:
    lines = [Line(tmp_path / "0"), Line(tmp_path / "1")]
    launcher = spark(endless(*(line.path for line in lines)), spares=1)
    [spare] = launcher._spares.values()
    launcher.launch(W0, 3)
    lines[0].hear()
    require_jobs(session, 1, "asyncsearch: digits worker-0")
    launcher.kill(W0, 3)
    assert ends.next() == (0, 3, "it was ended by the driver")
    lines[0].await_end()
    launcher._config_for = lambda worker, epoch: config_of(tmp_path, W1)
    launcher.launch(W0, 4)
    lines[1].hear()
    require_jobs(session, 1, "asyncsearch: digits worker-0 epoch 4")
    assert spare not in launcher._spares.values()


def test_a_task_that_takes_no_configuration_costs_a_job_and_no_launch(
    spark: Any, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unreachable(Handover):
        def __init__(self) -> None:
            super().__init__()
            self.address = self.address._replace(process=0)

    monkeypatch.setattr("asyncsearch.launch.spark.task.Handover", Unreachable)
    spark(lambda config: f"{config.worker}.{config.epoch} served", spares=1).launch(W0, 1)
    assert ends.next() == (0, 1, "0.1 served")
    assert ends.is_empty


@pytest.mark.parametrize("is_new", [True, False])
def test_tasks_begin_for_launches_to_come_and_unused_ones_end_with_the_run(
    session: Any, monkeypatch: pytest.MonkeyPatch, *, is_new: bool
) -> None:
    monkeypatch.setattr("asyncsearch.launch.spark.preflight.cores", lambda: 2)
    monkeypatch.setattr(Spark, "has_served", not is_new)
    launcher = SparkLauncher()
    launcher.check(2)
    launcher.warm_up(2)
    assert len(launcher._spares) == (1 if is_new else 2)
    launcher.stop(0.0)
    require_no_job(session)


@pytest.mark.parametrize("is_together", [False, True])
def test_jobs_have_the_pool_and_the_group_of_the_thread_that_called_check(
    session: Any, ends: Ends, tmp_path: Path, *, is_together: bool
) -> None:
    """A run is begun by a thread of its own; of studies that run together, each is checked in one too."""
    context = session.sparkContext

    def agent(config: Any) -> str:
        from pyspark import TaskContext

        found = TaskContext.get()
        return f"{found.getLocalProperty('spark.scheduler.pool')} {found.getLocalProperty('spark.jobGroup.id')}"

    first, launcher = SparkLauncher(agent=agent), SparkLauncher(agent=agent)

    def begin() -> None:
        launcher.start(lambda worker, epoch: config_for(tmp_path), ends)
        launcher.launch(W0, 1)

    def side() -> None:
        launcher.check(1)
        in_thread(threading.Thread(target=begin))

    context.setJobGroup("mine", "what I do")
    context.setLocalProperty("spark.scheduler.pool", "fair")
    try:
        if is_together:
            first.check(1)
            in_thread(first.thread(side, "side"))
        else:
            side()
        assert ends.reason() == "fair mine"
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
    finally:
        context.setLocalProperty("spark.scheduler.pool", None)
        context.setLocalProperty("spark.jobGroup.id", None)
        launcher.stop(5.0)
        first.stop(0.0)


def in_thread(thread: threading.Thread) -> None:
    thread.start()
    thread.join()


@pytest.mark.parametrize(("mode", "spares"), [*((mode, 0) for mode in TaskMode), (TaskMode.PLAIN, 1)])
def test_exception_is_told_and_not_tried_again(spark: Any, ends: Ends, mode: TaskMode, spares: int) -> None:
    def agent(config: Any) -> str:
        raise OSError("no route to the driver")

    spark(agent, mode=mode, spares=spares).launch(W0, 1)
    first, *rest = ends.reason().splitlines()
    assert first == "its task failed: OSError: no route to the driver"
    assert any("Traceback" in line for line in rest)


@pytest.mark.parametrize(("mode", "spares"), [*((mode, 0) for mode in TaskMode), (TaskMode.PLAIN, 1)])
def test_crash_of_the_python_worker_is_told(spark: Any, ends: Ends, mode: TaskMode, spares: int) -> None:
    def agent(config: Any) -> str:
        import os

        os._exit(3)

    spark(agent, mode=mode, spares=spares).launch(W0, 1)
    assert ends.reason() == "its Python worker process crashed or was killed"


def test_two_workers_run_at_once_and_kill_ends_one(spark: Any, ends: Ends, session: Any, tmp_path: Path) -> None:
    lines = [Line(tmp_path / "0"), Line(tmp_path / "1")]
    launcher = spark(endless(*(line.path for line in lines)))
    launcher._config_for = lambda worker, epoch: config_of(tmp_path, worker)
    launcher.launch(W0, 1)
    launcher.launch(W1, 1)
    for line in lines:
        line.hear()
    launcher.kill(W0, 7)
    launcher.kill(W0, 1)
    assert ends.next() == (0, 1, "it was ended by the driver")
    lines[0].await_end()
    assert ends.is_empty
    require_jobs(session, 1)


def config_of(folder: Path, worker: WorkerId) -> WorkerConfig:
    import msgspec

    return msgspec.structs.replace(config_for(folder), worker=worker)


def test_worker_without_a_slot_says_so_and_is_given_up(
    spark: Any, ends: Ends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [Line(tmp_path / "0"), Line(tmp_path / "1")]
    first, late = spark(endless(*(line.path for line in lines))), spark(lambda config: "never", start_timeout_s=2.0)
    first._config_for = lambda worker, epoch: config_of(tmp_path, worker)
    first.launch(W0, 1)
    first.launch(W1, 1)
    for line in lines:
        line.hear()
    monkeypatch.setattr("asyncsearch.launch.spark.supervisor.WAIT_LOGGED_AFTER_S", 0.5)
    late.launch(WorkerId(2), 1)
    assert ends.next() == (2, 1, "it found no free task slot within 2 s")
    assert [record.getMessage() for record in caplog.records] == [
        "worker-2 epoch 1 waits for a free task slot: other jobs hold them, or executors are missing."
    ]
    assert ends.is_empty


def test_stop_waits_for_those_that_end_by_themselves(spark: Any, ends: Ends, tmp_path: Path) -> None:
    line = Line(tmp_path / "line")
    path = line.path

    def agent(config: Any) -> str:
        with open(path, "w") as words:
            words.write("here")
        return "dismissed"

    launcher = spark(agent)
    launcher.launch(W0, 1)
    line.hear()
    launcher.stop(100.0)
    assert ends.reason() == "dismissed"


def test_stop_cancels_its_own_jobs_and_no_other(spark: Any, ends: Ends, session: Any, tmp_path: Path) -> None:
    line, other = Line(tmp_path / "line"), Line(tmp_path / "other")
    path = other.path
    results: list[Any] = []

    def foreign(rows: Any) -> list[int]:
        with open(path, "w") as words:
            words.write("here")
        with open(path + ".go") as go:
            return [len(go.read())]

    os.mkfifo(path + ".go")
    context = session.sparkContext
    job = threading.Thread(
        target=lambda: results.append(context.parallelize([0], 1).mapPartitions(foreign).collect()), daemon=True
    )
    launcher = spark(endless(line.path))
    launcher.launch(W0, 1)
    line.hear()
    job.start()
    other.hear()
    launcher.stop(0.0)
    assert ends.reason() == "it did not end in time"
    require_jobs(session, 1)
    with open(path + ".go", "w") as go:
        go.write("three")
    job.join()
    assert results == [[5]]


def test_launcher_can_be_used_for_a_second_run(spark: Any, ends: Ends, tmp_path: Path) -> None:
    launcher = spark(lambda config: "one")
    launcher.launch(W0, 1)
    assert ends.reason() == "one"
    launcher.stop(10.0)
    launcher.check(1)
    launcher.start(lambda worker, epoch: config_for(tmp_path), ends)
    launcher.launch(W0, 2)
    assert ends.next() == (0, 2, "one")


def test_worker_process_that_is_used_again_is_as_it_was(spark: Any, ends: Ends) -> None:
    def agent(config: Any) -> str:
        import os
        import signal

        return f"{os.getpid()} {(sorted(os.environ.items()), os.getcwd(), signal.getsignal(signal.SIGTERM))!r}"

    launcher = spark(agent)
    seen: dict[str, str] = {}
    # Spark may take another process while the last one is on its way back to the pool.
    for epoch in range(1, 30):
        launcher.launch(W0, epoch)
        process, state = ends.reason().split(" ", 1)
        if process in seen:
            assert state == seen[process]
            return
        seen[process] = state
    pytest.fail(f"no process was used twice: {sorted(seen)}")


def test_plain_task_that_spark_runs_again_ends_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import pyspark

    from asyncsearch.launch.spark.task import task

    class Second:
        @staticmethod
        def get() -> Second:
            return Second()

        def attemptNumber(self) -> int:
            return 1

        def resources(self) -> dict[str, Any]:
            return {}

    monkeypatch.setattr(pyspark, "TaskContext", Second)

    def agent(config: WorkerConfig) -> str:
        raise AssertionError("it runs twice")

    assert task(agent, config_for(tmp_path), TaskMode.PLAIN)([0]) == [RUN_AGAIN]
    assert task(agent, PipeAddress(1, 2, 3), TaskMode.PLAIN)([0]) == [RUN_AGAIN]


def test_devices_that_spark_gives_a_task_reach_the_agent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import pyspark

    from asyncsearch.launch.spark.task import task

    class Gpu:
        addresses = ["1", "3"]  # noqa: RUF012

    class WithGpu:
        @staticmethod
        def get() -> WithGpu:
            return WithGpu()

        def attemptNumber(self) -> int:
            return 0

        def resources(self) -> dict[str, Any]:
            return {"gpu": Gpu}

    monkeypatch.setattr(pyspark, "TaskContext", WithGpu)
    assert task(lambda config: repr(config.gpus), config_for(tmp_path), TaskMode.INDEPENDENT)([0]) == ["('1', '3')"]


def test_task_pickles_little(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    from asyncsearch.launch.base_launcher import run_agent
    from asyncsearch.launch.spark.task import task

    empty = len(cloudpickle.dumps(task(run_agent, config_for(tmp_path), TaskMode.INDEPENDENT)))
    full = len(cloudpickle.dumps(task(run_agent, config_for(tmp_path, bytes(100_000)), TaskMode.INDEPENDENT)))
    assert empty < 2_500
    assert full - empty < 100_100
