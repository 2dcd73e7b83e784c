"""Slots of a study's idle workers on Spark: other jobs of the application get them, and promotions take them again."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import GridSearch, Hyperband, Study, WorkerOptions, choice
from asyncsearch.actions import Assign, LaunchWorker, Promote
from asyncsearch.journal.opening import read_records
from asyncsearch.trial import TrialState
from tests.spark.cluster import spark_session

pytestmark = pytest.mark.spark
PATIENCE_S = 300.0


def await_file(path: Path) -> None:
    """Wait for a file, in this process or in a task."""
    for _ in range(int(20 * PATIENCE_S)):
        if path.exists():
            return
        threading.Event().wait(0.05)
    raise AssertionError(f"there is no {path.name}")


def meet(folder: Path, name: str, number: int, others: int) -> None:
    """Wait until so many others are here, too: all run at once."""
    (folder / f"{name}-{number}").touch()
    for other in range(others):
        await_file(folder / f"{name}-{other}")


def test_other_jobs_get_idle_slots_and_promotions_take_them_again(tmp_path: Path) -> None:
    folder = tmp_path

    def train(trial: Any) -> None:
        for epoch in trial.epochs(state={"done": {}}):
            if epoch == 1 and trial.params["x"] == 4:
                (folder / "long").touch()
                await_file(folder / "go")
            if epoch == 2:  # the two that were promoted at once
                meet(folder, "promoted", trial.params["x"] - 1, 2)
            trial.report(loss=trial.params["x"] / epoch)

    with spark_session("local[4]") as session:
        study = Study(
            train,
            space={"x": choice(1, 2, 3, 4)},
            searcher=GridSearch(),
            metric="loss",
            mode="min",
            scheduler=Hyperband(max_resource=4, reduction_factor=2, variant="synchronous"),
            store=folder / "study",
            workers=WorkerOptions(release_idle=0.2),
        )
        search = threading.Thread(target=lambda: study.run(num_trials=4, parallelism=4, display="none"), daemon=True)
        search.start()
        await_file(folder / "long")
        session.sparkContext.parallelize(range(3), 3).foreach(lambda number: meet(folder, "other", number, 3))
        assert study.trials[3].state is TrialState.RUNNING
        (folder / "go").touch()
        search.join(PATIENCE_S)
        assert not search.is_alive()
    records = list(read_records(study.store))
    (recall,) = (record for record in records if record.event.__struct_config__.tag == "reported" and launched(record))
    assert sum(isinstance(action, Promote) for action in recall.actions) == len(launched(recall)) == 2
    leases = [action.work.lease for record in records for action in record.actions if isinstance(action, Assign)]
    assert any(lease.epoch == 2 for lease in leases)
    assert study.best_trial.params == {"x": 1}
    assert study.best_trial.resource == 4
    assert sum(trial.losses for trial in study.trials) == 0


def launched(record: Any) -> list[LaunchWorker]:
    return [action for action in record.actions if isinstance(action, LaunchWorker)]
