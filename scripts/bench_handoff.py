"""What the system itself takes for a trial: 200 trials that do nothing, on two workers.

Figures: ``handoff_ms`` on a local Spark session and ``handoff_processes_ms`` on local processes, the wall time a trial
from the first ``Assign`` in the journal to the ``EndRun``. The baseline is a bare Spark job of two tasks that pull
numbers over a plain socket from the driver. ``first_trial_s`` is what comes before, from the call of ``run`` to that
``Assign``; its baseline is the same on local processes.

    python scripts/bench_handoff.py [--trials 200]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _bench import Figure, show

from asyncsearch import Study, TrialContext, uniform
from asyncsearch.actions import Assign, EndRun
from asyncsearch.driver.opening import read_records

WORKERS = 2


def no_op(trial: TrialContext) -> dict[str, float]:
    """Train nothing."""
    del trial
    return {"x": 1.0}


def handoff(backend: str, trials: int) -> tuple[float, float]:
    """Return the milliseconds of a trial, and the seconds until the first one was given to a worker."""
    with tempfile.TemporaryDirectory() as folder:
        study = Study(no_op, space={"lr": uniform(0.0, 1.0)}, metric="x", store=Path(folder) / "study", backend=backend)
        began_s = time.time()
        study.run(num_trials=trials, parallelism=WORKERS, display="none")
        times: dict[type, list[float]] = {Assign: [], EndRun: []}
        for record in read_records(study.store):
            for action in record.actions:
                times.setdefault(type(action), []).append(record.t)
    first_s, last_s = times[Assign][0], times[EndRun][-1]
    return 1e3 * (last_s - first_s) / trials, first_s - began_s


@contextlib.contextmanager
def spark_session() -> Iterator[Any]:
    """A local session with one slot for each worker."""
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{WORKERS}]").appName("bench_handoff")
    for key, value in {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def bare_ms(session: Any, numbers: int) -> float:
    """The baseline: the milliseconds of one number."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def pull(_: Iterator[int]) -> Iterator[int]:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.sendall(b"?")
                while (number := connection.recv(64)) != b"end":
                    yield int(number)
                    connection.sendall(b"?")

        times: list[float] = []

        def serve() -> None:
            left = iter(range(numbers))
            connections = [server.accept()[0] for _ in range(WORKERS)]
            times.append(time.perf_counter())
            threads = [threading.Thread(target=answer, args=(connection, left)) for connection in connections]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            times.append(time.perf_counter())

        def answer(connection: socket.socket, left: Iterator[int]) -> None:
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while connection.recv(1):
                    number = next(left, None)
                    connection.sendall(b"end" if number is None else str(number).encode())

        thread = threading.Thread(target=serve)
        thread.start()
        pulled = session.sparkContext.parallelize(range(WORKERS), WORKERS).mapPartitions(pull).collect()
        thread.join()
    assert sorted(pulled) == list(range(numbers))
    return 1e3 * (times[1] - times[0]) / numbers


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what the system itself takes for a trial.")
    parser.add_argument("--trials", type=int, default=200)
    trials = parser.parse_args().trials
    with spark_session() as session:
        bare = bare_ms(session, trials)
        on_spark, first_s = handoff("spark", trials)
    on_processes, first_on_processes_s = handoff("processes", trials)
    show(
        f"{trials} trials that do nothing, on {WORKERS} workers",
        [
            Figure("handoff_ms", on_spark, "ms", bare),
            Figure("handoff_processes_ms", on_processes, "ms", bare),
            Figure("first_trial_s", first_s, "s", first_on_processes_s),
        ],
    )


if __name__ == "__main__":
    main()
