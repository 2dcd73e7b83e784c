"""The time to stop a trial: from the engine's decision to the exception inside the trial.

Each trial of the search reports once a millisecond and is stopped at its 50th report, on two workers at a time. The
decision has the time of its journal record, which is written and synced before the worker is notified; the trial
records the arrival of ``TrialStopped``. Figures: ``stop_p50_ms`` and ``stop_p99_ms``. The baseline is a flag that a
loopback socket sets in a process that checks it every millisecond.

    python scripts/bench_stop.py [--stops 200]
"""

from __future__ import annotations

import argparse
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from _bench import Figure, percentile, show

from asyncsearch import FIFO, Study, TrialContext, uniform
from asyncsearch.actions import Assign, StopTraining
from asyncsearch.ids import TrialId, trial_name
from asyncsearch.journal.opening import read_records
from asyncsearch.schedulers.fifo import FIFOState
from asyncsearch.space import Space

WORKERS = 2
REPORTS = 50


class StopEach(FIFO):
    """Stops every trial at the same report."""

    def begin(self, space: Space | None = None, seed: int = 0) -> FIFOState:
        return StopEachState(None)


class StopEachState(FIFOState):
    """Decides only by the number of the report."""

    def judge(self, trial: TrialId, resource: int) -> str | None:
        del trial
        return f"stopped at report {resource}" if resource == REPORTS else None


def trainable(folder: Path) -> Callable[[TrialContext], None]:
    """Make a trial that reports until it is stopped, and records the time."""

    def train(trial: TrialContext) -> None:
        try:
            while True:
                time.sleep(0.001)
                trial.report(x=1.0)
        finally:
            stopped_s = time.time()
            (folder / trial.name).write_text(repr(stopped_s))

    return train


def delays_ms(stops: int) -> list[float]:
    """Return the duration of each stop."""
    with tempfile.TemporaryDirectory() as name:
        notes = Path(name) / "notes"
        notes.mkdir()
        study = Study(
            trainable(notes),
            space={"lr": uniform(0.0, 1.0)},
            metric="x",
            mode="max",
            scheduler=StopEach(),
            store=Path(name) / "study",
            backend="processes",
        )
        study.run(num_trials=stops, parallelism=WORKERS, display="none")
        trial_of: dict[int, str] = {}
        delays = []
        for record in read_records(study.store):
            for action in record.actions:
                if isinstance(action, Assign):
                    trial_of[action.work.lease.number] = trial_name(action.work.lanes[0].stages[0].trials[0])
                elif isinstance(action, StopTraining):
                    note = notes / trial_of[action.lease.number]
                    delays.append(1e3 * (float(note.read_text()) - record.t))
        return sorted(delays)


BARE = """
import socket, struct, sys, threading, time
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
flag = threading.Event()
def listen():
    while sock.recv(1):
        flag.set()
threading.Thread(target=listen, daemon=True).start()
while True:
    while not flag.is_set():
        time.sleep(0.001)
    flag.clear()
    sock.sendall(struct.pack("!d", time.time()))
"""


def bare_delays_ms(stops: int) -> list[float]:
    """The baseline."""
    delays: list[list[float]] = [[] for _ in range(WORKERS)]
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, "-c", BARE, str(server.getsockname()[1])]
        processes = [subprocess.Popen(command) for _ in range(WORKERS)]
        connections = [server.accept()[0] for _ in processes]

    def stop(connection: socket.socket, taken: list[float]) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(stops // WORKERS):
            time.sleep(0.02)
            decided_s = time.time()
            connection.sendall(b"!")
            (stopped_s,) = struct.unpack("!d", connection.recv(8, socket.MSG_WAITALL))
            taken.append(1e3 * (stopped_s - decided_s))

    threads = [threading.Thread(target=stop, args=pair) for pair in zip(connections, delays, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for process, connection in zip(processes, connections, strict=True):
        process.kill()
        process.wait()
        connection.close()
    return sorted(delay for taken in delays for delay in taken)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the time to stop a trial.")
    parser.add_argument("--stops", type=int, default=200)
    stops = parser.parse_args().stops
    ours, bare = delays_ms(stops), bare_delays_ms(stops)
    show(
        f"{len(ours)} stops on {WORKERS} workers, whose trials report every millisecond",
        [
            Figure("stop_p50_ms", percentile(ours, 50), "ms", percentile(bare, 50)),
            Figure("stop_p99_ms", percentile(ours, 99), "ms", percentile(bare, 99)),
        ],
    )


if __name__ == "__main__":
    main()
