"""What a search asks of its cluster and its workers from second to second: counts and ratios of one run.

``log_calls_s``: calls a second of a store like HDFS, of 45 ms each, for the logs of 200 trials that print a line a
second; the baseline is a call a trial and second. ``log_rounds_queued``: rounds of writing that wait for others.
``log_end_s``: what the end of the run waits for its logs; the baseline is a call a trial. ``look_calls`` and
``look_leaving_calls``: calls of Spark's Java process for one look at 100 workers on 25 executors, none or all of which
leave; the baseline is one an executor and worker.

``lanes_filled``: trials that a pack of 16 trains together while others are left to begin, with ASHA; the goal is 15.
``auto_calls_<trials>``: calls of a trainer with ``pack="auto"`` as a part of those with ``pack=16``, which is the
fastest size there; the goal is at most 1.15. Their baseline is the checkout ``--before``, where it is given.

    python scripts/bench_dynamics.py [--before ../earlier] [--only lanes_filled]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from _bench import Figure, show

HERE = Path(__file__).resolve().parents[1]

TRIALS, SECONDS = 200, 300
WORKERS, EXECUTORS = 100, 25
LANES, PACKED = 16, (9, 30, 150)
FILLED_CALL_S, AUTO_CALL_S = 0.2, 0.02
"""Seconds of a call with up to 16 trainings; more take as much longer as they are more. In a search as short as those
of ``auto_calls``, timing may take 2 s, so longer calls are timed in smaller steps, which are more calls."""


def logs() -> list[Figure]:
    """Return the calls that the logs of printing trials take."""
    from tests.driver.virtual_logs import VirtualLogs
    from tests.store.log_worlds import CALL_S

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
    from asyncsearch.launch.spark.job_ends import leaving
    from tests.spark.jvm import Jvm

    names = [str(number) for number in range(EXECUTORS)]
    jobs = [(f"run,worker-{number}", [(names[number % EXECUTORS], True)]) for number in range(WORKERS)]
    jvm = Jvm(jobs, names, set(names) if leave else set())
    leaving(jvm.context)
    return Figure(name, jvm.calls, "calls", EXECUTORS + WORKERS)


def packed(folder: Path, call_s: float) -> type[Any]:
    """Make a trainer that writes the trials of each of its calls."""
    from asyncsearch import Trainer

    lines = str(folder / "calls")

    class Packed(Trainer):
        def setup(self, hp: Mapping[str, Any]) -> None:
            self.units, self.x = 0, hp["x"]

        def train(self) -> None:
            type(self).train_pack([self])

        @classmethod
        def train_pack(cls, trainers: Sequence[Any]) -> None:
            with open(lines, "a") as file:
                file.write(" ".join(one.trial.name for one in trainers) + "\n")
            time.sleep(call_s * max(1.0, len(trainers) / LANES))
            for one in trainers:
                one.units += 1

        def evaluate(self) -> dict[str, float]:
            return {"loss": float(self.x + 1 / self.units)}

        def save(self, path: Path) -> None:
            path.write_text(str(self.units))

        def load(self, path: Path) -> None:
            self.units = int(path.read_text())

    return Packed


def calls(pack: int | str, trials: int, call_s: float) -> list[list[str]]:
    """Search on one worker, and return the trials of each call of the trainer."""
    from asyncsearch import ASHA, Study, uniform

    with tempfile.TemporaryDirectory() as name:
        study = Study(
            packed(Path(name), call_s),
            space={"x": uniform(0.0, 1.0)},
            metric="loss",
            mode="min",
            scheduler=ASHA(max_resource=9),
            seed=1,
            store=Path(name) / "study",
            backend="processes",
            pack=pack,
        )
        study.run(trials, parallelism=1, display="none")
        return [line.split() for line in (Path(name) / "calls").read_text().splitlines()]


def lanes_filled() -> float:
    """Return how many lanes of 16 train, on average, before the last trial begins."""
    found = calls(LANES, 100, FILLED_CALL_S)
    seen: set[str] = set()
    steady = []
    for lanes in found:
        is_last = len(seen | set(lanes)) == 100
        seen |= set(lanes)
        if is_last:
            break
        steady.append(len(lanes))
    return sum(steady) / len(steady)


def auto_calls(trials: int) -> float:
    """Return the calls of ``auto`` as a part of those of the best size."""
    return len(calls("auto", trials, AUTO_CALL_S)) / len(calls(LANES, trials, AUTO_CALL_S))


MEASURED: dict[str, tuple[str, Callable[[], float]]] = {
    "lanes_filled": ("of 16", lanes_filled),
    **{f"auto_calls_{trials}": ("of best", lambda trials=trials: auto_calls(trials)) for trials in PACKED},
}
"""Parts that run in a process of their own, with this checkout and with the one before: unit and measurement."""
PARTS: dict[str, Callable[[], list[Figure]]] = {
    "logs": logs,
    "look": lambda: [look("look_calls", leave=False), look("look_leaving_calls", leave=True)],
}


def measured(name: str, checkout: Path) -> float:
    """Measure a part with a checkout of the package."""
    env = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        [sys.executable, __file__, "--one", name], env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{name} with {checkout}:\n{done.stderr}")
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what a search asks of its cluster and its workers.")
    parser.add_argument("--before", type=Path, help="checkout of an earlier commit, as the baseline")
    parser.add_argument("--only", action="append", choices=[*PARTS, *MEASURED], help="a part; may be repeated")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(MEASURED[given.one][1]()))
        return 0
    sys.path.insert(0, str(HERE))
    figures = []
    for name in given.only or [*PARTS, *MEASURED]:
        if name in PARTS:
            figures += PARTS[name]()
            continue
        before = measured(name, given.before.resolve()) if given.before else 0.0
        figures.append(Figure(name, measured(name, HERE), MEASURED[name][0], before))
    show("Calls of a search with 200 printing trials, of a look at 100 workers, and of packs", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
