"""Studies whose trials train on several workers, on a cluster that they share with others: real processes and Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, Cluster, Study, TrialState, uniform
from asyncsearch.actions import Assign, DismissWorker, LaunchWorker
from asyncsearch.events import ShareChanged, WorkerLost
from asyncsearch.journal.opening import read_records
from tests.gangs.searches import digits, grid, killing, linear, require_lines
from tests.shares import takes_long
from tests.spark.cluster import spark_session

WORKERS = 3


def plain(folder: Path) -> Study:
    def train(trial: Any) -> None:
        counters = {"units": 0}
        for _ in trial.epochs(state={"counters": counters}):
            counters["units"] += 1
            trial.report(loss=trial.params["x"] / counters["units"])

    space = {"x": uniform(0.0, 1.0)}
    return Study(train, space=space, metric="loss", mode="min", scheduler=FIFO(max_resource=9), store=folder / "plain")


def launches(study: Study) -> Iterator[tuple[float, int]]:
    """Yield when a worker was launched, +1, and when it was given back or lost, -1."""
    there: set[tuple[int, int]] = set()
    for record in read_records(study.store):
        ends: list[Any] = [action for action in record.actions if isinstance(action, DismissWorker)]
        ends += [record.event] if isinstance(record.event, WorkerLost) else []
        for end in ends:
            if (end.worker, end.epoch) in there:
                there.remove((end.worker, end.epoch))
                yield record.t, -1
        for action in record.actions:
            if isinstance(action, LaunchWorker):
                there.add((action.worker, action.epoch))
                yield record.t, 1


def most_at_once(*studies: Study) -> int:
    """Return how many workers of all studies there were at most at the same time."""
    most = now = 0
    for _, change in sorted(step for study in studies for step in launches(study)):
        now += change
        most = max(most, now)
    return most


def shares_of(study: Study) -> set[int]:
    return {record.event.workers for record in read_records(study.store) if isinstance(record.event, ShareChanged)}


def sizes(study: Study) -> set[int]:
    actions = (action for record in read_records(study.store) for action in record.actions)
    return {1 + len(action.work.followers) for action in actions if isinstance(action, Assign)}


@pytest.mark.slow
def test_gangs_beside_plain_trials_end_as_alone_and_outlive_a_killed_rank(tmp_path: Path, line_alone: Study) -> None:
    (tmp_path / "killed").mkdir()
    happen = killing(tmp_path / "killed", {(1, 2, 1, "step")}, agent=True)
    gangs, others = grid(linear(happen), tmp_path / "gangs", 2, 2, save_every=1), plain(tmp_path)
    with Cluster(WORKERS, backend="processes", display="none") as cluster:
        cluster.submit(gangs, 2)
        cluster.submit(others, 20)
    assert len(list((tmp_path / "killed").iterdir())) == 1
    assert [trial.resource for trial in others.trials] == [9] * 20
    assert sum(trial.losses for trial in others.trials) == 0
    require_lines(gangs, line_alone)
    assert sizes(gangs) == {2}
    assert shares_of(gangs) <= {0, 2}, "one worker is of no use to a gang of two"
    assert most_at_once(gangs, others) <= WORKERS


@takes_long
@pytest.mark.slow
@pytest.mark.spark
def test_gangs_of_a_trainer_and_plain_trials_share_the_slots_of_spark(tmp_path: Path) -> None:
    gangs = digits(tmp_path / "gangs", 2, scheduler=FIFO(max_resource=2), backend="spark")
    others = plain(tmp_path)
    with spark_session("local[3]"), Cluster(display="none") as cluster:
        handles = [cluster.submit(gangs, 1), cluster.submit(others, 9)]
        for handle in handles:
            handle.wait()
    for study in (gangs, others):
        assert all(trial.state is TrialState.COMPLETED for trial in study.trials)
        assert sum(trial.losses for trial in study.trials) == 0
    assert sizes(gangs) == {2}
    assert most_at_once(gangs, others) <= WORKERS
