"""Studies that share the slots of one Spark session, and the pools by which Spark shares them with other jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, FIFO, Cluster, Study, uniform
from asyncsearch.actions import DismissWorker
from asyncsearch.journal.opening import read_records
from asyncsearch.trial import TrialState
from tests.spark.cluster import require_no_job, spark_session

pytestmark = [pytest.mark.spark, pytest.mark.slow]
POOL = "spark.scheduler.pool"


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    """A session of two slots that shares them fairly between pools."""
    with spark_session("local[2]", spark__scheduler__mode="FAIR") as session:
        yield session


def train(trial: Any) -> None:
    counters = {"units": 0}
    for _ in trial.epochs(state={"counters": counters}):
        counters["units"] += 1
        trial.report(loss=trial.params["x"] / counters["units"])


def make(folder: Path, name: str) -> Study:
    space = {"x": uniform(0.0, 1.0)}
    return Study(train, space=space, metric="loss", mode="min", scheduler=ASHA(max_resource=9), store=folder / name)


def test_three_studies_take_turns_on_two_slots_in_the_callers_pool(tmp_path: Path, session: Any) -> None:
    context = session.sparkContext
    context.setLocalProperty(POOL, "team")
    try:
        with Cluster(display="none", turn=1.0) as cluster:
            handles = [cluster.submit(make(tmp_path, name), 20, weight=n + 1) for n, name in enumerate("abc")]
            studies = [handle.wait() for handle in handles]
    finally:
        context.setLocalProperty(POOL, None)
    for study in studies:
        assert len(study.trials) == 20
        assert all(trial.state in (TrialState.PAUSED, TrialState.COMPLETED) for trial in study.trials)
        assert sum(trial.losses for trial in study.trials) == 0
    given_back = [
        action
        for study in studies
        for record in read_records(study.store)
        for action in record.actions
        if isinstance(action, DismissWorker) and "another study" in action.reason
    ]
    assert given_back
    assert context._jsc.sc().getPoolForName("team").isDefined()
    require_no_job(session)


PATIENCE_S = 300.0


def await_file(path: Path) -> None:
    """Wait for a file, in this process or in a task."""
    for _ in range(int(20 * PATIENCE_S)):
        if path.exists():
            return
        threading.Event().wait(0.05)
    raise AssertionError(f"there is no {path.name}")


def has_waiting_tasks(context: Any, pool: str) -> bool:
    found = context._jsc.sc().getPoolForName(pool)
    return bool(found.isDefined() and found.get().schedulableQueue().size() > 0)


def in_pool(context: Any, pool: str, call: Callable[[], Any]) -> threading.Thread:
    """Call in a thread whose jobs are in a pool."""

    def run() -> None:
        context.setLocalProperty(POOL, pool)
        call()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_a_search_gets_a_slot_before_the_waiting_tasks_of_another_pool(tmp_path: Path, session: Any) -> None:
    context, folder = session.sparkContext, tmp_path

    def task(number: int) -> None:
        (folder / f"begun-{number}").touch()
        await_file(folder / f"go-{number}")

    def waits(trial: Any) -> None:
        (folder / "trains").touch()
        await_file(folder / "go-trial")
        trial.report(loss=1.0)

    study = Study(
        waits, space={"x": uniform(0.0, 1.0)}, metric="loss", mode="min", scheduler=FIFO(), store=tmp_path / "study"
    )
    job = in_pool(context, "jobs", lambda: context.parallelize(range(4), 4).foreach(task))
    for number in (0, 1):
        await_file(folder / f"begun-{number}")
    search = in_pool(context, "searches", lambda: study.run(num_trials=1, parallelism=1, display="none"))
    while not has_waiting_tasks(context, "searches"):  # a job that has begun may not have its tasks in the queue yet
        threading.Event().wait(0.05)
    (folder / "go-0").touch()
    await_file(folder / "trains")
    assert not (folder / "begun-2").exists(), "by FIFO the earlier job would have had the slot"
    for number in (1, 2, 3):
        (folder / f"go-{number}").touch()
    job.join(PATIENCE_S)
    assert not job.is_alive(), "the job goes on in the other slot"
    assert search.is_alive()
    (folder / "go-trial").touch()
    search.join(PATIENCE_S)
    assert study.trials[0].state is TrialState.COMPLETED
