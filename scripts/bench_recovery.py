"""What a killed process costs: the time from a kill to training again, and the units that are trained again.

Two workers train trials of short units with ``save_every=1``. A process is killed by SIGKILL in the middle of a unit: a
runner, an agent, the driver; with ``--executors`` an executor of a standalone Spark cluster, and with ``--store hdfs``
the driver of a search on such a cluster, with its JVM, whose study is on a real HDFS. Figures, as medians:
``*_s`` is the time until the killed trial begins a unit in another process; its baseline is the time of a unit, for an
executor the time until a bare Spark job, submitted again at once, begins in another executor. ``driver_s`` is the time
from the start of the second driver; its baseline is that from the start of the first driver to its first unit. So is
``driver_hdfs_s``, which has HDFS close what the first driver had open. ``*_beyond_s`` is a time less its baseline.
``*_units`` are the units that were trained twice; 1 is the unit in which the process was killed, so with two workers a
killed driver costs 2.

    python scripts/bench_recovery.py [--repeats 3] [--unit 0.2] [--executors] [--store hdfs]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
from _bench import Figure, show

TRIALS, UNITS, WORKERS = 4, 9, 2
KILL_AT = 4
"""Unit of the first trial in the middle of which the process is killed."""
PATIENCE_S = 300.0
LOOK_S = 0.005
ROOT = Path(__file__).resolve().parent.parent


class Begun(NamedTuple):
    """A unit that began."""

    time_s: float
    pid: int
    agent: int
    trial: str
    unit: int


def search(folder: str, store: str, unit_s: float, backend: str) -> None:
    """The driver: search in a process of its own."""
    from asyncsearch import FIFO, Study, TrialContext, uniform

    def train(trial: TrialContext) -> None:
        done: list[int] = []

        def load(path: Path) -> None:
            done[:] = json.loads(path.read_text())

        out = os.open(f"{folder}/units", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        agent = psutil.Process(os.getppid()).ppid()
        for unit in trial.epochs(save=lambda path: path.write_text(json.dumps(done)), load=load):
            os.write(out, f"{time.time()} {os.getpid()} {agent} {trial.name} {unit}\n".encode())
            time.sleep(unit_s)
            done.append(unit)
            assert done == list(range(1, unit + 1)), "a unit was left out"
            trial.report(loss=1.0 / unit)

    study = Study(
        train,
        space={"lr": uniform(0.0, 1.0)},
        metric="loss",
        mode="min",
        scheduler=FIFO(max_resource=UNITS),
        store=store,
        backend=backend,
        save_every=1,
        resume=True,
    )
    study.run(num_trials=TRIALS, parallelism=WORKERS, display="none")
    states = {trial.state.value for trial in study.trials}
    assert states == {"COMPLETED"}, states
    assert not any(trial.failures for trial in study.trials)


def bare(folder: str) -> None:
    """The baseline for executors: two Spark jobs of one task, submitted again whenever they fail."""
    from pyspark import InheritableThread
    from pyspark.sql import SparkSession

    def task(name: str) -> Callable[[Iterator[int]], Iterator[int]]:
        def wait(_: Iterator[int]) -> Iterator[int]:
            with Path(f"{folder}/units").open("a") as units:
                units.write(f"{time.time()} {os.getpid()} {os.getpid()} {name} {KILL_AT}\n")
            while not Path(f"{folder}/over").exists():
                time.sleep(LOOK_S)
            yield 0

        return wait

    session = SparkSession.builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")

    def keep(name: str) -> None:
        while True:
            with contextlib.suppress(Exception):
                session.sparkContext.parallelize([0], 1).barrier().mapPartitions(task(name)).collect()
                return

    threads = [InheritableThread(target=keep, args=(f"job-{number}",)) for number in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    session.stop()


class Place(NamedTuple):
    """Where a search runs."""

    backend: str = "processes"
    master: str = ""
    """Of Spark."""
    stores: str = ""
    """Where its study is. In its folder if empty."""


class Search:
    """A search in a folder, whose driver can be started again."""

    def __init__(self, folder: Path, unit_s: float, place: Place) -> None:
        self.folder, self._unit_s, self._place = folder, unit_s, place
        self.started_s = 0.0

    def start(self) -> subprocess.Popen[bytes]:
        """Start a driver."""
        self.started_s = time.time()
        store = f"{self._place.stores or self.folder}/{self.folder.name}"
        options = ["--search", str(self.folder), "--unit", str(self._unit_s), "--backend", self._place.backend]
        options += ["--study", store]
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }
        if self._place.master:
            memory = "--driver-memory 512m --executor-memory 512m"
            quiet = "--conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false"
            environment["PYSPARK_SUBMIT_ARGS"] = f"--master {self._place.master} {memory} {quiet} pyspark-shell"
        return subprocess.Popen([sys.executable, __file__, *options], env=environment)

    def begun(self) -> list[Begun]:
        """Return the units that have begun so far."""
        path = self.folder / "units"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        rows = [line.split() for line in lines if line.endswith("\n")]
        return [Begun(float(at), int(pid), int(agent), trial, int(unit)) for at, pid, agent, trial, unit in rows]

    def wait(self, wanted: Callable[[Begun], bool]) -> Begun:
        """Return the first unit of a kind, as soon as it has begun."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for one in self.begun():
                if wanted(one):
                    return one
            time.sleep(LOOK_S)
        raise TimeoutError(f"No such unit within {PATIENCE_S:.0f} s; so far: {self.begun()}")


class Recovery(NamedTuple):
    """What one kill cost."""

    seconds: float
    units: int
    first_s: float
    """From the start of the first driver to its first unit."""


def recovery(victim: str, unit_s: float, place: Place) -> Recovery:
    """Search, kill one process in the middle of a unit, and return the cost of that."""
    with tempfile.TemporaryDirectory() as folder:
        run = Search(Path(folder), unit_s, place)
        driver = run.start()
        try:
            first = run.wait(lambda _: True)
            first_s = first.time_s - run.started_s
            at = run.wait(lambda one: one.trial == first.trial and one.unit == KILL_AT)
            time.sleep(unit_s / 2)
            began_s = time.time()
            _kill(victim, at, driver)
            if victim == "driver":
                driver.wait()
                driver = run.start()
                began_s = run.started_s
            again = run.wait(lambda one: one.trial == at.trial and one.time_s > began_s and one.pid != at.pid)
            (Path(folder) / "over").touch()
            if driver.wait(PATIENCE_S):
                raise RuntimeError(f"The search failed after its {victim} was killed.")
        finally:
            driver.kill()
            driver.wait()
        trained = Counter((one.trial, one.unit) for one in run.begun())
        return Recovery(again.time_s - began_s, sum(count - 1 for count in trained.values()), first_s)


def _kill(victim: str, at: Begun, driver: subprocess.Popen[bytes]) -> None:
    pid = {"runner": at.pid, "agent": at.agent, "driver": driver.pid}.get(victim)
    if pid is None:
        above = psutil.Process(at.agent).parents()
        pid = next(one.pid for one in above if "CoarseGrainedExecutorBackend" in " ".join(one.cmdline()))
    children = psutil.Process(driver.pid).children() if victim == "driver" else []
    os.kill(pid, signal.SIGKILL)
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.name() == "java":
                child.kill()


@contextlib.contextmanager
def standalone_cluster() -> Iterator[str]:
    """A standalone cluster of ``scripts/spark_cluster.sh``; the address of its master."""

    def command(*words: str) -> str:
        script = ["bash", str(ROOT / "scripts" / "spark_cluster.sh"), *words]
        environment = os.environ | {"PYTHON": sys.executable}
        return subprocess.run(script, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout

    try:
        yield command("start", str(WORKERS), "--cores", "1").split()[-1]
    finally:
        command("stop")


def figures(victim: str, found: list[Recovery], baseline: float) -> list[Figure]:
    """Return the figures of one kind of process."""
    seconds, units = (statistics.median(one[place] for one in found) for place in (0, 1))
    return [Figure(f"{victim}_s", seconds, "s", baseline), Figure(f"{victim}_units", units, "units", 1)]


def figures_beyond(victim: str, found: list[Recovery], baseline: float) -> list[Figure]:
    """Return the figures of one kind of process, and how much its time is beyond the baseline."""
    time_s, units = figures(victim, found, baseline)
    return [time_s, Figure(f"{victim}_beyond_s", time_s.value - baseline, "s", baseline), units]


def of_executors(unit_s: float, repeats: int) -> list[Figure]:
    """Return the costs of the executors of a standalone cluster, beside bare Spark jobs."""
    with standalone_cluster() as master:
        kills = [recovery("executor", unit_s, Place("spark", master)) for _ in range(repeats)]
        bares = [recovery("executor", unit_s, Place("bare", master)) for _ in range(repeats)]
    return figures_beyond("executor", kills, statistics.median(one.seconds for one in bares))


def of_drivers_on_hdfs(unit_s: float, repeats: int) -> list[Figure]:
    """Return the costs of drivers on a standalone cluster with HDFS, beside their first starts."""
    from _hdfs import hdfs  # not in the drivers, whose start is measured

    with tempfile.TemporaryDirectory() as folder, hdfs(Path(folder)) as url, standalone_cluster() as master:
        kills = [recovery("driver", unit_s, Place("spark", master, url)) for _ in range(repeats)]
    return figures_beyond("driver_hdfs", kills, statistics.median(one.first_s for one in kills))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what a killed process costs.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--unit", type=float, default=0.2, help="seconds that a unit takes")
    parser.add_argument("--executors", action="store_true", help="kill executors of a standalone Spark cluster, too")
    parser.add_argument("--store", choices=["local", "hdfs"], default="local", help="hdfs: kill drivers of HDFS, too")
    parser.add_argument("--search", help=argparse.SUPPRESS)
    parser.add_argument("--study", help=argparse.SUPPRESS)
    parser.add_argument("--backend", default="processes", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.search and options.backend == "bare":
        bare(options.search)
        return
    if options.search:
        search(options.search, options.study, options.unit, options.backend)
        return
    found = []
    for victim in ("runner", "agent", "driver"):
        kills = [recovery(victim, options.unit, Place()) for _ in range(options.repeats)]
        start_s = statistics.median(one.first_s for one in kills)
        found += figures(victim, kills, start_s if victim == "driver" else options.unit)
    if options.executors:
        found += of_executors(options.unit, options.repeats)
    if options.store == "hdfs":
        found += of_drivers_on_hdfs(options.unit, options.repeats)
    show(f"From a kill to training again, units of {options.unit:g} s, save_every=1", found)


if __name__ == "__main__":
    main()
