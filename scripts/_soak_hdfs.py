"""Searches on HDFS for long while workers are killed, and checks that nothing grows: see ``scripts/soak_hdfs.sh``.

It counts, minute by minute, what the NameNode is asked by clients for each trial, and the memory, descriptors and
threads of the driver and its agents. A trial prints a line a unit. Every now and then a runner or an agent is killed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
from _hadoop import state
from _hdfs import Hdfs
from _servers import cluster_folder
from _soak import GROWTH_MB, PER_TRIAL_KB, SLACK, Sample, take_sample

from asyncsearch import ASHA, RandomSearch, Study, uniform
from asyncsearch.errors import StoreError
from asyncsearch.trainable import TrialContext

OF_SERVERS = (
    "SendHeartbeat", "BlockReceivedAndDeleted", "BlockReport", "RegisterDatanode", "VersionRequest", "(external)",
    "CommitBlockSynchronization", "SendLifeline",
)  # fmt: skip
"""What the DataNodes ask, and what counts other calls once more."""
ENDLESS = 10**7
LOOK_S = 2.0
WITHIN_S = 10.0
"""The longest end of a run after its last trial."""
FLAT = 1.15
"""By which the calls a trial of the second half may exceed those of the first: a trial of ASHA is what it becomes."""
COUNTS = "ASYNCSEARCH_SOAK_COUNTS"
"""Names a folder in which each trial and each unit adds a byte to a file."""


class Minute(NamedTuple):
    """A minute of the search; memory is the median, everything else the most."""

    trials: int
    units: int
    calls: int
    kills: int
    driver_mb: float
    agent_mb: float
    driver_descriptors: int
    agent_descriptors: int
    driver_threads: int
    processes: int

    @property
    def calls_a_trial(self) -> float:
        return self.calls / max(1, self.trials)


def train(trial: TrialContext) -> None:
    """Train for a second or two a unit, with a line of output and a checkpoint where it is paused."""
    seen = {"units": 0}

    def save(path: Path) -> None:
        path.write_text(str(seen["units"]))

    def load(path: Path) -> None:
        seen["units"] = int(path.read_text())

    for unit in trial.epochs(save=save, load=load):
        time.sleep(1.0 + trial.params["x"])
        add("units" if unit > 1 else "trials")
        seen["units"] += 1
        print(f"unit {unit} of {trial.name}: loss {trial.params['x'] / unit:.6f}")
        trial.report(loss=trial.params["x"] / unit)


def add(name: str) -> None:
    """Count one more of something, whatever is killed."""
    with open(Path(os.environ[COUNTS]) / name, "ab") as file:
        file.write(b".")


def counted(name: str) -> int:
    with contextlib.suppress(FileNotFoundError):
        return (Path(os.environ[COUNTS]) / name).stat().st_size
    return 0


def calls_of_clients(cluster: Hdfs) -> int:
    """Return how many calls the NameNode has had from clients since it was started."""
    port = cluster.url.rpartition(":")[2]
    found = state(cluster.servers.ports("http-1")["http-1"], f"NameNode,name=RpcDetailedActivityForPort{port}")
    names = {name: count for name, count in found.items() if name.endswith("NumOps")}
    return sum(
        count for name, count in names.items() if not name.startswith(OF_SERVERS) and "Exception" not in name
        and not name.startswith("Overall")
    )  # fmt: skip


class Watch:
    """Looks at the search, kills some of its processes, and prints each minute; in a thread of its own."""

    def __init__(self, cluster: Hdfs, folder: Path, kill_every_s: float) -> None:
        self.minutes: list[Minute] = []
        self._cluster, self._folder, self._kill_every_s = cluster, folder, kill_every_s
        self._over = threading.Event()
        self._random = random.Random(1)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        print("minute  trials  units  calls  a trial  kills  " + "  ".join(Minute._fields[4:]), flush=True)
        kill_at = time.monotonic() + 60.0 + self._kill_every_s  # all workers train by then
        while not self._over.is_set():
            until, samples, kills = time.monotonic() + 60.0, [], 0
            began = counted("trials"), counted("units"), calls_of_clients(self._cluster)
            while time.monotonic() < until and not self._over.wait(LOOK_S):
                samples.append(take_sample([self._folder]))
                if time.monotonic() > kill_at:
                    kills += self._kill()
                    kill_at += self._kill_every_s
            if self._over.is_set():
                return  # a part of a minute
            ended = counted("trials"), counted("units"), calls_of_clients(self._cluster)
            self._note([after - before for before, after in zip(began, ended, strict=True)], kills, samples)

    def _note(self, counts: Sequence[int], kills: int, samples: Sequence[Sample]) -> None:
        trials, units, calls = counts
        middle = {name: statistics.median(getattr(one, name) for one in samples) for name in ("driver_mb", "agent_mb")}
        most = {name: max(getattr(one, name) for one in samples) for name in Minute._fields[6:]}
        found = Minute(trials, units, calls, kills, middle["driver_mb"], middle["agent_mb"], **most)
        self.minutes.append(found)
        shown = "  ".join(f"{value:g}" if isinstance(value, int) else f"{value:.1f}" for value in found[4:])
        number = len(self.minutes)
        print(
            f"{number:>6}  {trials:>6}  {units:>5}  {calls:>5}  {found.calls_a_trial:>7.1f}  {kills:>5}  {shown}",
            flush=True,
        )

    def _kill(self) -> int:
        """Kill an agent, or a process below one; return how many were killed."""
        agents = psutil.Process().children()
        below = [process for agent in agents for process in _children(agent)]
        victims = below if self._random.random() < 0.75 else agents
        if not victims:
            return 0
        with contextlib.suppress(psutil.Error):
            self._random.choice(victims).send_signal(signal.SIGKILL)
        return 1


def _children(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return process.children(recursive=True)
    return []


def growths(minutes: Sequence[Minute], trials: int) -> list[str]:
    """Return a sentence for each number that grows; the first minute, in which the workers start, is left out."""
    middle = 1 + (len(minutes) - 1) // 2
    first, second = minutes[1:middle], minutes[middle:]
    if not first:
        return [f"{len(minutes)} whole minutes are too few to tell: search for longer."]
    before, after = (
        sum(one.calls for one in part) / max(1, sum(one.trials for one in part)) for part in (first, second)
    )
    found = []
    if after > FLAT * before:
        found.append(
            f"the calls of HDFS a trial grew from {before:.1f} to {after:.1f}; {FLAT:g} times as many are flat."
        )
    for name in Minute._fields[4:]:
        least, most = (max(getattr(one, name) for one in part) for part in (first, second))
        extra = PER_TRIAL_KB * trials / 2 / 1024 if name == "driver_mb" else 0.0
        allowed = GROWTH_MB + extra if name.endswith("_mb") else float(SLACK[name.rpartition("_")[2]])
        if most > least + allowed:
            found.append(f"{name} grew from {least:g} to {most:g}; at most {allowed:g} more are flat.")
    return found


def searched(study: Study, timeout_s: float, workers: int) -> list[str]:
    """Search for so long; return why it could not, so that what was seen until then is shown all the same."""
    try:
        study.run(ENDLESS, timeout=timeout_s, parallelism=workers, display="none")
    except StoreError as error:
        return [str(error)]
    return []


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--kill-every", type=float, default=30.0, help="seconds (default: 30)")
    given = parser.parse_args(arguments)
    cluster = Hdfs(cluster_folder("hdfs"))
    with tempfile.TemporaryDirectory(prefix="soak-") as base:
        os.environ[COUNTS] = base
        temporary = Path(base) / "tmp"
        temporary.mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        study = Study(
            train, space={"x": uniform(0.0, 1.0)}, metric="loss", mode="min", backend="processes",
            searcher=RandomSearch(), scheduler=ASHA(max_resource=27), store=f"{cluster.url}/soak/{uuid.uuid4().hex}",
            max_failures=10,
        )  # fmt: skip
        began_s = time.monotonic()
        with Watch(cluster, temporary, given.kill_every) as watch:
            failure = searched(study, 60 * given.minutes, given.workers)
            ended_s = time.monotonic()
        over_s = ended_s - began_s - 60 * given.minutes
        trials = len(study.trials)
        kills = sum(one.kills for one in watch.minutes)
        print(
            f"{trials:,} trials and {kills} kills in {ended_s - began_s:.0f} s; it ended {over_s:.1f} s after its time"
        )
        found = [*failure, *growths(watch.minutes, trials)]
        if over_s > WITHIN_S:
            found.append(f"it ended {over_s:.1f} s after its time; at most {WITHIN_S:g} were meant.")
        for words in found:
            print(f"soak: {words}")
        print("soak: not flat" if found else "soak: flat", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
