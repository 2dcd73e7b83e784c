"""The overhead of a trial: 1,000 trials that do nothing, on two workers.

Figures: ``handoff_ms`` on a local Spark session and ``handoff_processes_ms`` on local processes are the wall time per
trial after the workers have started: from the time at which each has ended its first trial to the ``EndRun``, as in the
journal, over the trials that ended in between. With few trials it would tell how long Java goes on compiling after the
launch, which takes the same cores. The baseline is a bare Spark job of two tasks that pull numbers over a
plain socket from the driver. ``first_trial_s`` is the time from the call of ``run`` to the first ``Assign``; its
baseline is the same on local processes. ``start_s`` lies between the two: runners import and load the trainable.

With ``--connect`` the session is one of Spark Connect, of a server in the same process's Java, and the figures are
``connect_handoff_ms`` and so on. Their baselines are those of a classic session. Rounds of both go in turns, each in a
process of its own, and a figure is the median of its rounds: one round beside another load differs by more than the two
kinds. The hand-off is that of a second search in each session: the first one runs while Java and Python still start.

    python scripts/bench_handoff.py [--trials 1000] [--connect] [--rounds 5]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from _bench import Figure, show

from asyncsearch import Study, TrialContext, uniform
from asyncsearch.actions import Assign, EndRun
from asyncsearch.events import TrainingEnded
from asyncsearch.ids import WorkerId
from asyncsearch.journal.opening import read_records

WORKERS = 2


def no_op(trial: TrialContext) -> dict[str, float]:
    """Train nothing."""
    del trial
    return {"x": 1.0}


class Taken(NamedTuple):
    """The times of a search."""

    first_s: float
    """From the call of ``run`` to the first work."""
    start_s: float
    """From there until each worker had ended its first trial."""
    trial_ms: float
    """A trial from there on."""


def handoff(backend: str, trials: int) -> Taken:
    """Search, and return the times."""
    with tempfile.TemporaryDirectory() as folder:
        study = Study(
            no_op,
            space={"lr": uniform(0.0, 1.0)},
            metric="x",
            mode="max",
            store=Path(folder) / "study",
            backend=backend,
        )
        began_s = time.time()
        study.run(num_trials=trials, parallelism=WORKERS, display="none")
        assigned_s, ended_s, end_s = [], [], 0.0
        first_of: dict[WorkerId, float] = {}
        for record in read_records(study.store):
            if isinstance(record.event, TrainingEnded):
                ended_s.append(record.t)
                first_of.setdefault(record.event.lease.worker, record.t)
            for action in record.actions:
                if isinstance(action, Assign):
                    assigned_s.append(record.t)
                elif isinstance(action, EndRun):
                    end_s = record.t
    all_started_s = max(first_of.values())
    rest = sum(ended > all_started_s for ended in ended_s)
    trial_ms = 1e3 * (end_s - all_started_s) / rest
    return Taken(assigned_s[0] - began_s, all_started_s - assigned_s[0], trial_ms)


@contextlib.contextmanager
def connect_session() -> Iterator[Any]:
    """A session of a local Spark Connect server with one slot for each worker."""
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
    quiet = ("spark.ui.enabled=false", "spark.ui.showConsoleProgress=false", "spark.log.level=ERROR")
    settings = (*quiet, "spark.connect.grpc.binding.address=127.0.0.1")
    options = " ".join(f"--conf {setting}" for setting in settings)
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    os.environ |= {"PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell", "SPARK_TESTING": "1"}  # any free port
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(f"local[{WORKERS}]").getOrCreate()
    try:
        yield session
    finally:
        session.stop()


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
    """The baseline: milliseconds per number."""
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


SESSIONS = {"classic": spark_session, "connect": connect_session}


def measure_round(kind: str, trials: int) -> None:
    """Print the times of two searches in a session of one kind."""
    with SESSIONS[kind]():
        print(json.dumps([handoff("spark", trials), handoff("spark", trials)]))


def round_of(kind: str, trials: int) -> tuple[Taken, Taken]:
    """Measure a round in a process of its own: Java has one session, and compiles for all that come after."""
    command = [sys.executable, __file__, "--round", kind, "--trials", str(trials)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    first, again = json.loads(done.stdout.splitlines()[-1])
    return Taken(*first), Taken(*again)


def compare(trials: int, rounds: int) -> None:
    """Measure Spark Connect and a classic session in turns."""
    taken: dict[str, list[tuple[Taken, Taken]]] = {kind: [] for kind in SESSIONS}
    for number in range(rounds):
        for kind in list(SESSIONS)[:: 1 if number % 2 else -1]:
            taken[kind].append(round_of(kind, trials))
    figures = []
    for name, unit, time_of in (
        ("handoff_ms", "ms", lambda first, again: again.trial_ms),
        ("first_trial_s", "s", lambda first, again: first.first_s),
        ("start_s", "s", lambda first, again: first.start_s),
    ):
        classic, by_connect = ([time_of(*one) for one in taken[kind]] for kind in ("classic", "connect"))
        ratios = sorted(mine / other for mine, other in zip(by_connect, classic, strict=True))
        print(f"connect_{name}: ratios of the rounds {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
        figures.append(Figure(f"connect_{name}", median(by_connect), unit, median(classic)))
    show(
        f"{trials} trials that do nothing, on {WORKERS} workers by Spark Connect; baselines: on a classic session; "
        f"medians of {rounds} rounds in turns",
        figures,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the overhead of a trial.")
    parser.add_argument("--trials", type=int, default=1_000)
    parser.add_argument("--connect", action="store_true", help="compare Spark Connect with a classic session")
    parser.add_argument("--rounds", type=int, default=5, help="of each of the two")
    parser.add_argument("--round", choices=list(SESSIONS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    trials = options.trials
    if options.round:
        measure_round(options.round, trials)
        return
    if options.connect:
        compare(trials, options.rounds)
        return
    with spark_session() as session:
        bare = bare_ms(session, trials)
        on_spark = handoff("spark", trials)
    on_processes = handoff("processes", trials)
    show(
        f"{trials} trials that do nothing, on {WORKERS} workers",
        [
            Figure("handoff_ms", on_spark.trial_ms, "ms", bare),
            Figure("handoff_processes_ms", on_processes.trial_ms, "ms", bare),
            Figure("first_trial_s", on_spark.first_s, "s", on_processes.first_s),
            Figure("start_s", on_spark.start_s, "s", on_processes.start_s),
        ],
    )


if __name__ == "__main__":
    main()
