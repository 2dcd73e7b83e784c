"""Trials in threads of the driver that start Spark jobs: side by side, and gone with their trials."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, Study, WorkerOptions, choice, uniform
from asyncsearch.launch.threads.launcher import ThreadLauncher
from asyncsearch.trainable import TrialContext
from asyncsearch.trial import TrialState
from tests.spark.cluster import require_no_job, spark_session
from tests.spark.long_jobs import jobs_with_tasks, long_job, when

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with spark_session("local[2]", spark__scheduler__mode="FAIR") as made:
        yield made


def study_of(train: Any, store: Path, **options: Any) -> Study:
    space = {"x": uniform(0, 1)}
    given = {"space": space, "metric": "value", "mode": "max", "backend": "threads", "store": store}
    return Study(train, **{**given, "workers": WorkerOptions(stop_grace=30), **options})


def test_jobs_of_two_trials_share_the_slots_and_ctrl_c_leaves_none(session: Any, tmp_path: Path) -> None:
    """Each trial has one job of many tasks, and both have tasks that run at the same time: in turn they never had."""
    unwound: list[str] = []

    def train(trial: TrialContext) -> None:
        trial.report(value=trial.params["x"], resource=1)
        try:
            long_job(session)
        finally:
            unwound.append(trial.name)

    study = study_of(train, tmp_path)
    failures = when(lambda: jobs_with_tasks(session.sparkContext) == 2, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        study.run(num_trials=2, parallelism=2, display="none")
    assert failures == []
    require_no_job(session)
    assert sorted(unwound) == ["trial-0", "trial-1"]
    assert {trial.state for trial in study.trials} == {TrialState.WAITING}


def test_a_search_with_a_session_in_its_function_promotes_and_names_its_jobs(session: Any, tmp_path: Path) -> None:
    frame, context = session.range(100).cache(), session.sparkContext
    named: dict[str, set[str]] = {"spark.scheduler.pool": set(), "spark.jobGroup.id": set(), "spark.job.tags": set()}

    def train(trial: TrialContext) -> None:
        for _ in trial.epochs(state={}):
            for key, values in named.items():
                values.add(context.getLocalProperty(key))
            trial.report(value=frame.filter(frame.id < trial.params["x"]).count())

    space = {"x": choice(10, 20, 30, 40)}
    study = study_of(train, tmp_path, space=space, searcher="grid", scheduler=ASHA(max_resource=2, reduction_factor=2))
    study.run(parallelism=2, display="none")
    assert study.best_trial.params["x"] == 40
    assert study.best_trial.value == 40
    assert len(named["spark.scheduler.pool"]) == 2
    assert len(named["spark.jobGroup.id"]) >= 4
    assert named["spark.jobGroup.id"] == named["spark.job.tags"]
    require_no_job(session)


def test_sessions_without_fair_pools_are_told_of_them(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ThreadLauncher().check(2)
    assert found.place == "threads of this process, with jobs on Spark local[2]"
    assert found.warnings == ()
    monkeypatch.setattr(type(session.sparkContext._conf), "get", lambda self, key, default=None: default)
    assert "start the session with spark.scheduler.mode=FAIR" in " ".join(ThreadLauncher().check(2).warnings)
