"""What a search asks of its cluster and its workers from second to second: counts and ratios of one run.

``log_calls_s``: calls a second of a store like HDFS, of 45 ms each, for the logs of 200 trials that print a line a
second; the baseline is a call a trial and second. ``log_rounds_queued``: rounds of writing that wait for others.
``log_end_s``: what the end of the run waits for its logs; the baseline is a call a trial. ``look_calls`` and
``look_leaving_calls``: calls of Spark's Java process for one look at 100 workers on 25 executors, none or all of which
leave; the baseline is one an executor and worker.

``kill_to_step_s``: seconds from the SIGKILL of a process that trains in torch to the next step of its trial; the goal
is 0.3. ``preload_mb``: memory of the process from which the next one was forked, as far as no other has it. Their
baseline is the checkout ``--before``, where it is given.

    python scripts/bench_dynamics.py [--before ../earlier] [--only kill_to_step_s]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _bench import Figure, show

HERE = Path(__file__).resolve().parents[1]

TRIALS, SECONDS = 200, 300
WORKERS, EXECUTORS = 100, 25


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


def killed_once(lines: Path) -> type[Any]:
    """Make a trainer in torch whose second trial kills its process, and which writes when it does and when it steps."""
    import torch

    from asyncsearch import TorchTrainer

    file = str(lines)

    class Killed(TorchTrainer):
        def model(self, hp: Any) -> Any:
            return torch.nn.Linear(64, 10)

        def optimizer(self, hp: Any, model: Any) -> Any:
            return torch.optim.Adam(model.parameters(), hp["lr"])

        def data(self, hp: Any) -> Any:
            from sklearn.utils import shuffle

            some = shuffle(torch.zeros(64, 64).numpy()), torch.zeros(64, dtype=torch.long).numpy()
            return some, some

        def step(self, batch: Any) -> None:
            super().step(batch)
            is_second = self.trial.name == "trial-1"
            if is_second and not Path(file).exists():
                megabytes = awaited_megabytes()
                Path(file).write_text(f"{megabytes} {time.monotonic()}")
                os.kill(os.getpid(), signal.SIGKILL)
            elif is_second and len(Path(file).read_text().split()) == 2:
                Path(file).write_text(f"{Path(file).read_text()} {time.monotonic()}")

    return Killed


def awaited_megabytes() -> float:
    """Wait until a process beside this one has no more to do, and return the memory that it alone has. 0: none is."""
    import psutil

    beside = [one for one in psutil.Process(os.getppid()).children() if one.pid != os.getpid()]
    used = -1.0
    while beside and used != (used := sum(one.cpu_times().user for one in beside)):
        time.sleep(5.0)
    return sum(one.memory_full_info().uss for one in beside) / 2**20


def killed(place: int) -> float:
    """Search in torch with one process killed; return one of the megabytes, and the seconds from there to a step."""
    from asyncsearch import FIFO, Study, loguniform

    with tempfile.TemporaryDirectory() as name:
        lines = Path(name) / "times"
        study = Study(
            killed_once(lines),
            space={"lr": loguniform(1e-3, 1e-1)},
            metric="accuracy",
            mode="max",
            scheduler=FIFO(max_resource=2),
            seed=1,
            store=Path(name) / "study",
            backend="processes",
        )
        study.run(2, parallelism=1, display="none")
        megabytes, killed_s, stepped_s = map(float, lines.read_text().split())
        return (megabytes, stepped_s - killed_s)[place]


MEASURED: dict[str, tuple[str, Callable[[], float]]] = {
    "preload_mb": ("MB", lambda: killed(0)),
    "kill_to_step_s": ("s", lambda: killed(1)),
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
    show(
        "Calls of a search with 200 printing trials, of a look at 100 workers, and what a killed process costs", figures
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
