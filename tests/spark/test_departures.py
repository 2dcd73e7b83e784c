"""What a look at Spark's executors and tasks finds, and how many calls of the JVM it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from types import SimpleNamespace

import pytest

from asyncsearch.launch.spark.job_ends import leaving
from asyncsearch.launch.spark.session import Spark
from tests.spark.jvm import Jvm

NORMAL_CALLS, CALLS_AN_EXECUTOR, CALLS_A_JOB = 8, 2, 16
"""The most that one look may take: per look, per executor, per job of the application."""


def spark_of(jvm: Jvm) -> Spark:
    return Spark(jvm.context)


def test_a_worker_leaves_with_the_executor_of_its_running_task_only() -> None:
    jobs = [
        ("run,stays", [("1", True)]),
        ("run,leaves", [("2", True)]),
        ("run,was-there", [("2", False), ("1", True)]),
        ("", [("2", True)]),
    ]
    assert leaving(Jvm(jobs, ["1", "2"], {"2"}).context) == {"run", "leaves"}
    assert leaving(Jvm(jobs, ["1", "2"], {"3"}).context) == set()
    assert leaving(Jvm(jobs, [], {"2"}).context) == set()


def test_a_job_has_its_slot_once_a_task_of_it_runs() -> None:
    jobs = [("run,runs", [("1", True)]), ("run,waits", []), ("ended", [("1", False)]), ("", [("1", True)])]
    assert spark_of(Jvm(jobs, ["1"], set())).running() == {"run", "runs"}


def test_where_spark_has_changed_nobody_leaves_and_nobody_is_said_to_wait() -> None:
    changed = Spark(SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: None)))
    assert changed.leaving() == set()
    assert changed.running() is None


@pytest.mark.parametrize(("workers", "executors"), [(3, 1), (100, 25), (400, 1), (1, 400)])
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_a_look_takes_few_calls_an_executor_and_a_job_at_any_size(workers: int, executors: int, share: float) -> None:
    names = [str(number) for number in range(executors)]
    jobs = [(f"run,worker-{number}", [(names[number % executors], True)]) for number in range(workers)]
    gone = set(names[: round(share * executors)])
    for look, expected in _looks(jobs, names, gone).items():
        jvm = Jvm(jobs, names, gone)
        assert getattr(spark_of(jvm), look)() == expected
        most = NORMAL_CALLS + CALLS_AN_EXECUTOR * executors + CALLS_A_JOB * workers
        if look == "leaving" and not gone:
            most -= CALLS_A_JOB * workers
        assert jvm.calls <= most, look


def _looks(
    jobs: Sequence[tuple[str, Sequence[tuple[str, bool]]]], names: Sequence[str], gone: Set[str]
) -> Mapping[str, Set[str]]:
    all_tags = {tag for tags, _ in jobs for tag in tags.split(",")}
    left = {tag for tags, [(executor, _)] in jobs if executor in gone for tag in tags.split(",")}
    return {"running": all_tags, "leaving": left}
