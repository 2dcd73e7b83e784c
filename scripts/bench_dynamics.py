"""What a search asks of its cluster from second to second: counts on a virtual clock, the same on every machine.

``log_calls_s``: calls a second of a store like HDFS, of 45 ms each, for the logs of 200 trials that print a line a
second; the baseline is a call a trial and second. ``log_rounds_queued``: rounds of writing that wait for others.
``log_end_s``: what the end of the run waits for its logs; the baseline is a call a trial. ``look_calls`` and
``look_leaving_calls``: calls of Spark's Java process for one look at 100 workers on 25 executors, none or all of which
leave; the baseline is one an executor and worker.

    python scripts/bench_dynamics.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from _bench import Figure, show

sys.path.insert(0, str(Path(__file__).parents[1]))

from asyncsearch.launch.spark.job_ends import leaving
from tests.driver.virtual_logs import VirtualLogs
from tests.spark.jvm import Jvm
from tests.store.log_worlds import CALL_S

TRIALS, SECONDS = 200, 300
WORKERS, EXECUTORS = 100, 25


def logs() -> list[Figure]:
    """Return the calls that the logs of printing trials take."""
    bench = VirtualLogs("hidden")
    for second in range(SECONDS):
        for trial in range(TRIALS):
            bench.prints(trial, f"epoch {second} loss 0.1234")
        bench.loop.run_until(second + 1.0)
    end_s = bench.end()
    return [
        Figure("log_calls_s", bench.world.calls / SECONDS, "calls/s", TRIALS),
        Figure("log_rounds_queued", bench.thread.most_queued, "rounds", 0.0),
        Figure("log_end_s", end_s, "s", TRIALS * CALL_S),
    ]


def look(name: str, *, leave: bool) -> Figure:
    """Return the calls that a look at departing executors takes."""
    names = [str(number) for number in range(EXECUTORS)]
    jobs = [(f"run,worker-{number}", [(names[number % EXECUTORS], True)]) for number in range(WORKERS)]
    jvm = Jvm(jobs, names, set(names) if leave else set())
    leaving(jvm.context)
    return Figure(name, jvm.calls, "calls", EXECUTORS + WORKERS)


if __name__ == "__main__":
    show(
        "Calls of a search with 200 printing trials, and of a look at 100 workers",
        [*logs(), look("look_calls", leave=False), look("look_leaving_calls", leave=True)],
    )
