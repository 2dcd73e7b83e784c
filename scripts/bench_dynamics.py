"""What a search asks of its cluster from second to second: counts on a virtual clock, the same on every machine.

``log_calls_s``: calls a second of a store like HDFS, of 45 ms each, for the logs of 200 trials that print a line a
second; the baseline is a call a trial and second. ``log_rounds_queued``: rounds of writing that wait for others.
``log_end_s``: what the end of the run waits for its logs; the baseline is a call a trial.

``closure_bytes_per_worker``: what a launch on Spark carries itself, with a bundle of 8 MB. ``check_tasks`` and
``check_tasks_again``: tasks of the check of 25 executors with 100 slots, for a first and a second search; the baseline
is one an executor. ``driver_calls_per_s`` and ``driver_calls_leaving``: calls of Spark's Java process by looks at 100
workers on 25 executors, none or all of which leave, while a launch waits for its slot; the baseline is the limit.

    python scripts/bench_dynamics.py [--only PART]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import _dynamics_clusters
from _bench import Figure, show

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.driver.virtual_logs import VirtualLogs
from tests.store.log_worlds import CALL_S

TRIALS, SECONDS = 200, 300


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


PARTS: dict[str, Callable[[], list[Figure]]] = {
    "logs": logs,
    "closure": _dynamics_clusters.closure,
    "checks": _dynamics_clusters.checks,
    "looks": _dynamics_clusters.looks,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what a search asks of its cluster.")
    parser.add_argument("--only", action="append", choices=PARTS, help="a part to measure; may be repeated")
    names = parser.parse_args().only or PARTS
    show("What a search asks of its cluster", [figure for name in names for figure in PARTS[name]()])
    return 0


if __name__ == "__main__":
    sys.exit(main())
