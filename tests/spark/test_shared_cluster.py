"""Studies that share the slots of one Spark session, and the pools by which Spark shares them with other jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, Cluster, Study, uniform
from asyncsearch.actions import DismissWorker
from asyncsearch.journal.opening import read_records
from asyncsearch.trial import TrialState
from tests.spark.cluster import spark_session

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


def test_three_studies_take_turns_on_two_slots_and_their_jobs_are_in_the_pool_of_the_caller(
    tmp_path: Path, session: Any
) -> None:
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
    assert not context.statusTracker().getActiveJobsIds()
