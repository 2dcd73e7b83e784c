"""The session of the driver: trials in threads start jobs with it, and a DataFrame of it becomes files for workers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from asyncsearch import ASHA, Study, WorkerOptions, choice, uniform
from asyncsearch.errors import StoreError, StudyNotFoundError, UsageError
from asyncsearch.launch.threads.launcher import ThreadLauncher
from asyncsearch.launch.value_pickler import dumps
from asyncsearch.old_pickles import loads
from asyncsearch.parquet import write_parquet
from asyncsearch.trainable import TrialContext
from asyncsearch.trial import TrialState
from tests.scripts.tools import SCRIPTS, imported
from tests.shares import takes_long
from tests.spark.cluster import require_no_job, spark_session
from tests.spark.long_jobs import jobs_with_tasks, long_job, press_ctrl_c_when, search_with_a_verdict

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    # Two partitions: 200 of a few rows each would take most of the time of these tests.
    with spark_session("local[2]", spark__scheduler__mode="FAIR", spark__sql__shuffle__partitions="2") as made:
        yield made


def study_of(train: Any, store: Path, **options: Any) -> Study:
    space = {"x": uniform(0, 1)}
    given = {"space": space, "metric": "value", "mode": "max", "backend": "threads", "store": store}
    return Study(train, **{**given, "workers": WorkerOptions(stop_grace=30), **options})


def test_jobs_of_two_trials_share_the_slots_and_ctrl_c_leaves_none(session: Any, tmp_path: Path) -> None:
    unwound: list[str] = []

    def train(trial: TrialContext) -> None:
        trial.report(value=trial.params["x"], resource=1)
        try:
            long_job(session)
        finally:
            unwound.append(trial.name)

    study = study_of(train, tmp_path)
    failures = press_ctrl_c_when(lambda: jobs_with_tasks(session.sparkContext) == 2)
    with pytest.raises(KeyboardInterrupt):
        study.run(num_trials=2, parallelism=2, display="none")
    assert failures == []
    require_no_job(session)
    assert sorted(unwound) == ["trial-0", "trial-1"]
    assert {trial.state for trial in study.trials} == {TrialState.WAITING}


def test_a_function_with_a_session_is_searched_and_its_jobs_named(session: Any, tmp_path: Path) -> None:
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
    assert named["spark.scheduler.pool"] <= {"asyncsearch-worker-0", "asyncsearch-worker-1"}
    assert len(named["spark.jobGroup.id"]) >= 4
    assert named["spark.jobGroup.id"] == named["spark.job.tags"]
    require_no_job(session)


def test_a_verdict_cancels_the_job_of_its_trial_and_no_other(session: Any, tmp_path: Path) -> None:
    search_with_a_verdict(session, tmp_path)
    require_no_job(session)


def test_sessions_without_fair_pools_are_told_of_them(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ThreadLauncher().check(2)
    assert found.place == "threads of this process, with jobs on Spark local[2]"
    assert found.warnings == ()
    monkeypatch.setattr(type(session.sparkContext._conf), "get", lambda self, key, default=None: default)
    assert "start the session with spark.scheduler.mode=FAIR" in " ".join(ThreadLauncher().check(2).warnings)


def test_the_example_fits_the_folds_of_good_pipelines_only(session: Any, tmp_path: Path) -> None:
    script = imported("digits_spark_ml")
    study = script.make_study(script.digits(session, images=80), tmp_path)
    study.run(num_trials=2, parallelism=2, display="none")
    require_promoted(study)
    require_no_job(session)


def require_promoted(study: Study) -> None:
    """Require that of two trials of the example one went on after its first fold, and the other did not."""
    stopped, promoted = sorted(study.trials, key=lambda trial: trial.trained)
    assert (stopped.trained, promoted.trained) == (1, 2)
    worse, better = [float(dict(study.history(trial))[1]["accuracy"]) for trial in (stopped, promoted)]
    assert worse <= better
    assert [line for line in study.logs(promoted) if "fold 1: " in line]


def test_shards_of_a_dataframe_are_disjoint_and_whole_and_written_once(session: Any, tmp_path: Path) -> None:
    frame = session.range(0, 101, 1, 4).selectExpr("id", "id * 2 AS twice", "CAST(NULL AS STRING) AS nothing")
    folder = tmp_path / "with a space"
    files = write_parquet(frame, folder)
    written = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    again = write_parquet(frame.repartition(3), folder)
    assert again.files == files.files
    assert sorted(path.relative_to(folder) for path in folder.rglob("*")) == written
    sent = loads(dumps(files))  # as a worker has it
    assert sorted(sent.read().column("id").to_pylist()) == list(range(101))
    for size in (2, 3):
        shards = [sent.read(rank, size, columns=["id"]).column("id").to_pylist() for rank in range(size)]
        assert sorted(one for shard in shards for one in shard) == list(range(101))
        assert max(map(len, shards)) - min(map(len, shards)) <= 1
    other = write_parquet(frame.where("id > 0"), folder)
    assert other.read(columns=["twice"]).num_rows == 100
    with pytest.raises(UsageError, match="write 0 <= rank < size <= 100"):
        other.read(2, 2)
    (folder / other.files[0][0]).unlink()
    with pytest.raises(StoreError, match="is gone: call write_parquet"):
        other.read()
    with pytest.raises(UsageError, match="without rows"):
        write_parquet(frame.where("id < 0"), folder)


@takes_long  # without Spark a killed driver goes on as on every backend: tests/faults
@pytest.mark.slow
def test_a_killed_driver_goes_on_by_the_same_command(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPTS / "digits_spark_ml.py"), "--images", "200", "--trials", "6"]
    command += ["--store", str(tmp_path / "study")]
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(SCRIPTS.parent)}
    with subprocess.Popen(command, env=environment) as killed:
        try:
            for _ in waits():
                if sum(len(history) for history in histories(tmp_path / "study")) >= 2:
                    break
            family = psutil.Process(killed.pid).children(recursive=True)
        finally:
            killed.kill()
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []
    before = histories(tmp_path / "study")
    subprocess.run(command, env=environment, check=True)
    after = histories(tmp_path / "study")
    assert len(after) == 6
    assert [history[: len(one)] for history, one in zip(after, before, strict=False)] == before


def histories(store: Path) -> list[list[Any]]:
    """Return the reports of each trial of a study, none if there is no study yet."""
    try:
        study = Study.open(store)
        return [study.history(trial) for trial in study.trials]
    except StudyNotFoundError:
        return []


def waits() -> Iterator[None]:
    """Yield every moment, for some minutes at most."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        yield
        time.sleep(0.1)
    raise AssertionError("it has not reported twice within ten minutes")
