"""Searches for long, and checks that nothing of the driver or its agents grows: see ``scripts/soak.sh``."""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import psutil

from asyncsearch import ASHA, FIFO, RandomSearch, Study, uniform
from asyncsearch.trainable import TrialContext

EVERY_S = 0.1
OFTEN_S = 0.02
"""For a search that is over in seconds."""
PARTS = 10
ENDLESS = 10**7
"""More trials than any time allows."""
LONGEST_UNIT_S = 0.02
GROWTH_MB = 16.0
"""Most by which memory may grow from the first half to the second: malloc keeps what a rush of reports needed."""
PER_TRIAL_KB = 3.0
"""Memory of the driver for each finished trial, which comes on top of that; 1 was measured."""
SLACK = {"descriptors": 12, "threads": 6, "processes": 3, "temporary": 6}
"""By how much the most of the second half may exceed that of the first: a worker may be replaced at any moment."""


class Sample(msgspec.Struct, frozen=True):
    """The resources of the driver and its agents at one time; numbers of agents are those of the largest one."""

    at_s: float
    driver_mb: float
    agent_mb: float
    driver_descriptors: int
    agent_descriptors: int
    driver_threads: int
    agent_threads: int
    processes: int
    """Of the search, without the driver."""
    temporary: int
    """Files and folders in the temporary folder, and in the one of the store."""


FIELDS = Sample.__struct_fields__[1:]


def take_sample(folders: Sequence[Path]) -> Sample:
    """Look at this process and those that it has started."""
    me = psutil.Process()
    agents = []
    for child in me.children():
        with contextlib.suppress(psutil.Error), child.oneshot():
            agents.append((child.memory_info().rss / 2**20, child.num_fds(), child.num_threads()))
    entries = sum(len(files) + len(names) for folder in folders for _, names, files in os.walk(folder))
    return Sample(
        time.monotonic(),
        me.memory_info().rss / 2**20,
        max((agent[0] for agent in agents), default=0.0),
        me.num_fds(),
        max((agent[1] for agent in agents), default=0),
        me.num_threads(),
        max((agent[2] for agent in agents), default=0),
        len(me.children(recursive=True)),
        entries,
    )


class Watch:
    """Takes samples in a thread of its own while a search runs."""

    def __init__(self, folders: Sequence[Path], every_s: float) -> None:
        self.samples: list[Sample] = []
        self._folders, self._every_s = folders, every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            self.samples.append(take_sample(self._folders))


def tenths(samples: Sequence[Sample]) -> list[dict[str, float]]:
    """Return, for each tenth of the time, the median of memory and the most of all else."""
    start, whole = samples[0].at_s, max(samples[-1].at_s - samples[0].at_s, 1e-9)
    parts: list[list[Sample]] = [[] for _ in range(PARTS)]
    for sample in samples:
        parts[min(PARTS - 1, int(PARTS * (sample.at_s - start) / whole))].append(sample)
    return [{name: _of(name, [getattr(sample, name) for sample in part]) for name in FIELDS} for part in parts if part]


def _of(name: str, values: Sequence[float]) -> float:
    return round(statistics.median(values), 1) if name.endswith("_mb") else max(values)


def growths(parts: Sequence[dict[str, float]], trials: int) -> list[str]:
    """Return a sentence for each number that grows; the first tenth, in which the workers start, is left out."""
    middle = 1 + (len(parts) - 1) // 2
    first, second = parts[1:middle], parts[middle:]
    found = []
    for name in FIELDS:
        before, after = max(part[name] for part in first), max(part[name] for part in second)
        allowed = _allowed(name, trials)
        if after > before + allowed:
            found.append(f"{name} grew from {before:g} to {after:g}; at most {allowed:g} more are flat.")
    return found


def _allowed(name: str, trials: int) -> float:
    if name.endswith("_mb"):
        return GROWTH_MB + (PER_TRIAL_KB * trials / 2 / 1024 if name == "driver_mb" else 0.0)
    return float(SLACK[name.rpartition("_")[2]])


def train(trial: TrialContext) -> None:
    """Train for some milliseconds a unit, with a checkpoint and a line of output."""
    state = {"units": 0}

    def save(path: Path) -> None:
        path.write_text(str(state["units"]))

    def load(path: Path) -> None:
        state["units"] = int(path.read_text())

    for unit in trial.epochs(save=save, load=load):
        time.sleep(LONGEST_UNIT_S * trial.params["x"])
        state["units"] += 1
        print(f"unit {unit} of {trial.name}")
        trial.report(loss=trial.params["x"] / unit)


def short(trial: TrialContext) -> float:
    """Train for nothing: what is left is the search."""
    return float(trial.params["x"])


def soak(name: str, study: Study, folders: Sequence[Path], every_s: float, **options: object) -> list[str]:
    """Run a search, print each tenth of it, and return the resources that have grown."""
    began_s = time.monotonic()
    with Watch(folders, every_s) as watch:
        study.run(display="none", **options)  # type: ignore[arg-type]
    trials = len(study.trials)
    print(f"{name}: {trials:,} trials in {time.monotonic() - began_s:.0f} s")
    if len(watch.samples) < 4 * PARTS:
        return [f"{name}: it was over after {len(watch.samples)} looks, too few to tell: search for longer."]
    parts = tenths(watch.samples)
    for number, part in enumerate(parts, 1):
        print(f"  {number:>2}/10  " + "  ".join(f"{field} {part[field]:g}" for field in FIELDS), flush=True)
    return [f"{name}: {words}" for words in growths(parts, trials)]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="of the second search (default: 30)")
    parser.add_argument("--trials", type=int, default=2_000, help="short trials of the first search (default: 2000)")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="soak-") as base:
        temporary = Path(base) / "tmp"
        temporary.mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)  # of this process, and of those it starts
        options = {"space": {"x": uniform(0.0, 1.0)}, "metric": "loss", "mode": "min", "backend": "processes"}
        found = []
        if given.trials:
            root = Path(base) / "short"
            study = Study(short, searcher=RandomSearch(), scheduler=FIFO(), store=root, **options)
            found += soak(
                f"{given.trials:,} short trials",
                study,
                [temporary, root / "tmp"],
                OFTEN_S,
                num_trials=given.trials,
                parallelism=given.workers,
            )
        if given.minutes:
            root = Path(base) / "long"
            study = Study(train, searcher=RandomSearch(), scheduler=ASHA(max_resource=9), store=root, **options)
            name = f"{given.minutes:g} minutes of ASHA"
            seconds = 60 * given.minutes
            found += soak(
                name,
                study,
                [temporary, root / "tmp"],
                EVERY_S,
                num_trials=ENDLESS,
                timeout=seconds,
                parallelism=given.workers,
            )
        left = [str(path.relative_to(base)) for path in temporary.rglob("*") if path.is_file()]
        found += [f"{len(left)} temporary files are left: {', '.join(left[:5])}."] if left else []
        for words in found:
            print(f"soak: {words}")
        print("soak: not flat" if found else "soak: flat", flush=True)  # to remove the stores may take minutes
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
