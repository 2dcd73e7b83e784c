"""The CPU time of an almost idle driver: two trials train and report once a second.

A search runs in a separate process, so that nothing else is measured, and its output goes into a pipe, as in a
scheduled job. ``idle_cpu_percent`` is the CPU time of that process (without its workers) in percent of one core. The
baseline is a process that sleeps.

    python scripts/bench_idle.py [--seconds 20]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from _bench import Figure, show

from asyncsearch import Study, TrialContext, uniform

WARM_S = 5.0
"""Seconds that a process needs to import everything and to start its workers."""


def train(trial: TrialContext) -> None:
    """Sleep, and report once a second."""
    for _ in range(trial.params["reports"]):
        time.sleep(1.0)
        trial.report(x=1.0)


def search(folder: Path, seconds: float) -> None:
    """Run a search for slightly longer than ``seconds``, and record the CPU time of this process."""
    threading.Thread(target=measure, args=(folder, seconds)).start()
    study = Study(
        train,
        space={"lr": uniform(0.0, 1.0), "reports": round(seconds + WARM_S + 3)},
        metric="x",
        mode="max",
        store=folder / "study",
        backend="processes",
    )
    study.run(num_trials=2, parallelism=2)


def measure(folder: Path, seconds: float) -> None:
    """Record the CPU time of this process, in percent of one core."""
    time.sleep(WARM_S)
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    time.sleep(seconds)
    taken_s, taken_cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
    (folder / "percent").write_text(repr(100 * taken_cpu_s / taken_s))


def percent(kind: str, seconds: float) -> float:
    """Run one of the two in a separate process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--seconds", str(seconds), "--only", kind, "--folder", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        return float((Path(folder) / "percent").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the CPU time of an idle driver.")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--only", choices=("search", "sleep"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only == "search":
        search(given.folder, given.seconds)
    elif given.only == "sleep":
        measure(given.folder, given.seconds)
    else:
        ours, bare = percent("search", given.seconds), percent("sleep", min(given.seconds, 5.0))
        show(
            f"A driver while two trials report once a second, over {given.seconds:g} s",
            [Figure("idle_cpu_percent", ours, "% of a core", bare)],
        )


if __name__ == "__main__":
    main()
