"""What is idle: the CPU time of a driver while two trials report once a second, and the slots of idle workers.

A search runs in a separate process, so that nothing else is measured, and its output goes into a pipe, as in a
scheduled job. ``idle_cpu_percent`` is the CPU time of that process (without its workers) in percent of one core. The
baseline is a process that sleeps.

With ``--slots``, on a local Spark session of 8 slots: ``slots_back_s`` is the time from the moment when one long trial
is left until another job of the application runs on the 7 other slots at once; the baseline is what is allowed.
``recall_s`` is the time from a decision that promotes four trials at once until the last worker that was launched for
them has attached; the baseline is the slowest start of the run's first workers.

    python scripts/bench_idle.py [--seconds 20]
    python scripts/bench_idle.py --slots
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

from asyncsearch import GridSearch, Hyperband, Study, TrialContext, choice, uniform
from asyncsearch.actions import LaunchWorker
from asyncsearch.events import TrainingEnded, WorkerAttached
from asyncsearch.ids import WorkerId
from asyncsearch.journal.opening import read_records

WARM_S = 5.0
"""Seconds that a process needs to import everything and to start its workers."""
SLOTS, ALLOWED_S, PROMOTED_UNIT_S = 8, 15.0, 3.0


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


def await_file(path: Path) -> None:
    """Wait for a file, in this process or in a task."""
    while not path.exists():
        time.sleep(0.05)


def idle_slots(folder: Path) -> list[Figure]:
    """Search until one long trial is left, run another job on the other slots, and let the long trial end its rung."""
    from pyspark.sql import SparkSession

    def train(trial: TrialContext) -> None:
        for epoch in trial.epochs(state={"done": {}}):
            if epoch == 1 and trial.params["x"] == SLOTS:
                (folder / "long").touch()
                await_file(folder / "go")
            elif epoch == 2:
                time.sleep(PROMOTED_UNIT_S)
            trial.report(loss=trial.params["x"])

    def meet(number: int) -> float:
        (folder / f"other-{number}").touch()
        for other in range(SLOTS - 1):
            await_file(folder / f"other-{other}")
        return time.time()

    builder = SparkSession.builder.master(f"local[{SLOTS}]").config("spark.ui.enabled", "false")
    session = builder.config("spark.log.level", "ERROR").getOrCreate()
    study = Study(
        train,
        space={"x": choice(*range(1, SLOTS + 1))},
        searcher=GridSearch(),
        metric="loss",
        mode="min",
        scheduler=Hyperband(max_resource=8, reduction_factor=2, variant="synchronous"),
        store=folder / "study",
    )
    search = threading.Thread(target=lambda: study.run(num_trials=SLOTS, parallelism=SLOTS, display="none"))
    search.start()
    await_file(folder / "long")
    met_s = max(session.sparkContext.parallelize(range(SLOTS - 1), SLOTS - 1).map(meet).collect())
    (folder / "go").touch()
    search.join()
    session.stop()
    first_s, again_s = starts(study)
    return [
        Figure("slots_back_s", met_s - left_s(study, met_s), "s", ALLOWED_S),
        Figure("recall_s", again_s, "s", first_s),
    ]


def left_s(study: Study, before_s: float) -> float:
    """Return when the last of the other trainings had ended."""
    times = [one.t for one in read_records(study.store) if isinstance(one.event, TrainingEnded)]
    return max(t for t in times if t < before_s)


def starts(study: Study) -> tuple[float, float]:
    """Return the seconds of the slowest start of the first workers, and of those launched again."""
    began: dict[tuple[WorkerId, int], float] = {}
    taken: dict[bool, list[float]] = {True: [], False: []}
    for record in read_records(study.store):
        for action in record.actions:
            if isinstance(action, LaunchWorker):
                began[action.worker, action.epoch] = record.t
        if isinstance(record.event, WorkerAttached):
            launch = record.event.worker, record.event.epoch
            taken[record.event.epoch == 1].append(record.t - began[launch])
    return max(taken[True]), max(taken[False])


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure an idle driver, or the slots of idle workers.")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--slots", action="store_true", help="measure the slots of idle workers on Spark, too")
    parser.add_argument("--only", choices=("search", "sleep"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only == "search":
        search(given.folder, given.seconds)
    elif given.only == "sleep":
        measure(given.folder, given.seconds)
    else:
        ours, bare = percent("search", given.seconds), percent("sleep", min(given.seconds, 5.0))
        figures = [Figure("idle_cpu_percent", ours, "% of a core", bare)]
        if given.slots:
            with tempfile.TemporaryDirectory() as folder:
                figures += idle_slots(Path(folder))
        show(f"A driver while two trials report once a second, over {given.seconds:g} s", figures)


if __name__ == "__main__":
    main()
