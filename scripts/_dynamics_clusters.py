"""What a search costs Spark's driver and executors, as counts: parts of ``bench_dynamics.py``.

Spark is a stand-in that counts calls, tasks and bytes; ``tests/spark/test_spread.py`` holds the same on real executors.
"""

from __future__ import annotations

import sys
from pathlib import Path

from _bench import Figure

sys.path.insert(0, str(Path(__file__).parents[1]))

from asyncsearch.launch.base_launcher import run_agent
from asyncsearch.launch.spark.job_ends import DECOMMISSION_LOOK_S
from asyncsearch.launch.spark.placement import Executor
from asyncsearch.launch.spark.task import TaskMode, task
from asyncsearch.launch.value_pickler import dumps
from tests.launch.tools import config_for
from tests.spark.jvm import Jvm
from tests.spark.test_broadcast import BroadcastingSpark, shared
from tests.spark.test_departures import spark_of
from tests.spark.test_preflight import FakeSpark, check

WORKERS, EXECUTORS, BUNDLE_BYTES = 100, 25, 8_000_000
WATCHED_S = 10.0
"""The first seconds of a departure, in which each job is asked for its place."""
MOST_CALLS_S = 500.0


def closure() -> list[Figure]:
    """Return the bytes that each launch carries itself."""
    config = config_for(Path("store"), bytes(BUNDLE_BYTES))
    part = shared(BroadcastingSpark())
    size = len(dumps(task(run_agent, part.without(config), TaskMode.PLAIN)))
    return [Figure("closure_bytes_per_worker", size, "B", BUNDLE_BYTES)]


def checks() -> list[Figure]:
    """Return the tasks of the check of executors, for a first search and for one more on the same session."""
    spark = FakeSpark(slots=WORKERS)
    spark.present = [Executor(str(number), f"host-{number}", WORKERS // EXECUTORS) for number in range(EXECUTORS)]
    tasks = []
    for _ in range(2):
        spark.asked = 0
        check(spark, 2)
        tasks.append(spark.asked)
    return [
        Figure("check_tasks", tasks[0], "tasks", EXECUTORS),
        Figure("check_tasks_again", tasks[1], "tasks", EXECUTORS),
    ]


def looks() -> list[Figure]:
    """Return the calls of the JVM a second by looks at 100 workers, while one more launch waits for its slot."""
    return [
        Figure("driver_calls_per_s", calls_per_s(leave=False), "calls/s", MOST_CALLS_S),
        Figure("driver_calls_leaving", calls_per_s(leave=True), "calls/s", MOST_CALLS_S),
    ]


def calls_per_s(workers: int = WORKERS, *, leave: bool) -> float:
    names = [str(number) for number in range(workers // 4)]
    jobs = [(f"asyncsearch-run,asyncsearch-{n}", [(names[n % len(names)], True)]) for n in range(workers)]
    jvm = Jvm([*jobs, ("asyncsearch-run,asyncsearch-waits", [])], names, set(names) if leave else set())
    spark = spark_of(jvm)
    for _ in range(round(WATCHED_S / DECOMMISSION_LOOK_S)):
        spark.departures()
        spark.running()
    return jvm.calls / WATCHED_S
