"""What a look at Spark's executors and tasks finds, and how many calls of the JVM it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from types import SimpleNamespace

import pytest

from asyncsearch.launch.spark.session import Spark
from tests.spark.jvm import Jvm

NORMAL_CALLS, CALLS_AN_EXECUTOR, CALLS_A_JOB = 12, 2, 17
"""The most that one look may take: per look, per executor, per job of the application."""
LOOKS = 30
"""In a minute."""
MOST_CALLS_S = 5.0
"""For each worker, by all looks of a minute in which all of a cluster leaves, and a launch waits for its slot."""


def spark_of(jvm: Jvm) -> Spark:
    return Spark(jvm.context)


def departing(jvm: Jvm) -> Set[str]:
    return spark_of(jvm).departures().keys()


def test_a_worker_leaves_with_the_executor_of_its_running_task_only() -> None:
    jobs = [
        ("asyncsearch-run,asyncsearch-stays", [("1", True)]),
        ("asyncsearch-run,asyncsearch-leaves", [("2", True)]),
        ("asyncsearch-run,asyncsearch-was-there", [("2", False), ("1", True)]),
        ("", [("2", True)]),
        ("another's", [("2", True)]),
    ]
    assert departing(Jvm(jobs, ["1", "2"], {"2"})) == {"asyncsearch-run", "asyncsearch-leaves"}
    assert departing(Jvm(jobs, ["1", "2"], {"3"})) == set()


@pytest.mark.parametrize("is_seen_before", [True, False])
def test_a_task_that_spark_runs_again_is_lost_with_its_first_executor(is_seen_before: bool) -> None:
    jvm = Jvm([("asyncsearch-a", [("1", True)]), ("asyncsearch-b", [("2", True)])], ["1", "2"], set())
    spark = spark_of(jvm)
    if is_seen_before:
        assert spark.departures() == {}
    jvm.lose("1")
    assert spark.departures() == {"asyncsearch-a": "its executor 1 was lost"}


def test_a_task_that_runs_is_not_lost_though_no_executor_is_named() -> None:
    jvm = Jvm([("asyncsearch-a", [("1", True)]), ("asyncsearch-b", [("2", True)])], ["1", "2"], set())
    spark = spark_of(jvm)
    jvm.lose("1")
    jvm.hide()
    assert spark.departures() == {"asyncsearch-a": "its executor 1 was lost"}


def test_a_job_has_its_slot_once_a_task_of_it_runs() -> None:
    jobs = [
        ("asyncsearch-run,asyncsearch-runs", [("1", True)]),
        ("asyncsearch-run,asyncsearch-waits", []),
        ("ended", [("1", False)]),
        ("", [("1", True)]),
    ]
    assert spark_of(Jvm(jobs, ["1"], set())).running() == {"asyncsearch-run", "asyncsearch-runs"}


def test_where_spark_has_changed_nobody_leaves_and_nobody_is_said_to_wait() -> None:
    changed = Spark(SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: None), _conf={}, master="yarn"))
    assert changed.departures() == {}
    assert changed.running() is None


@pytest.mark.parametrize(("workers", "executors"), [(3, 1), (100, 25), (400, 1), (1, 400)])
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_a_look_takes_few_calls_an_executor_and_a_job_at_any_size(workers: int, executors: int, share: float) -> None:
    names = [str(number) for number in range(executors)]
    jobs = [
        (f"asyncsearch-run,asyncsearch-worker-{number}", [(names[number % executors], True)])
        for number in range(workers)
    ]
    gone = set(names[: round(share * executors)])
    for look, expected in _looks(jobs, names, gone).items():
        jvm = Jvm(jobs, names, gone)
        assert set(getattr(spark_of(jvm), look)()) == expected
        most = NORMAL_CALLS + CALLS_AN_EXECUTOR * executors + CALLS_A_JOB * workers
        assert jvm.calls <= most, look


@pytest.mark.parametrize("workers", [50, 100, 200])
@pytest.mark.parametrize("leave", [False, True])
def test_the_calls_of_all_looks_of_a_minute_grow_with_the_workers(workers: int, leave: bool) -> None:
    names = [str(number) for number in range(workers // 4)]
    jobs = [(f"asyncsearch-run,asyncsearch-{n}", [(names[n % len(names)], True)]) for n in range(workers)]
    jvm = Jvm([*jobs, ("asyncsearch-run,asyncsearch-waits", [])], names, set(names) if leave else set())
    spark = spark_of(jvm)
    for _ in range(LOOKS):
        assert len(spark.departures()) == (workers + 1 if leave else 0)
        assert len(spark.running() or ()) == workers + 1
    assert jvm.calls / 60 <= MOST_CALLS_S * workers


def test_a_job_of_another_is_looked_into_once_and_its_tasks_never() -> None:
    jvm = Jvm([("", [("1", True)] * 10_000), ("sums", [("1", True)] * 10_000)], ["1"], {"1"})
    spark = spark_of(jvm)
    assert [spark.departures() for _ in range(LOOKS)] == [{}] * LOOKS
    assert jvm.calls <= LOOKS * (NORMAL_CALLS + CALLS_AN_EXECUTOR)


def _looks(
    jobs: Sequence[tuple[str, Sequence[tuple[str, bool]]]], names: Sequence[str], gone: Set[str]
) -> Mapping[str, Set[str]]:
    all_tags = {tag for tags, _ in jobs for tag in tags.split(",")}
    left = {tag for tags, [(executor, _)] in jobs if executor in gone for tag in tags.split(",")}
    return {"running": all_tags, "departures": left}
