"""Trials on several workers: how long a gang takes to start, what it adds to a unit, and what a lost rank costs.

Figures, on processes of this machine, medians of several trials:
``gang_start_s``: from the assignment of work to a gang of 2 whose workers have trained before to its first report; the
baseline is the first unit of two new bare processes that meet by torch itself. ``gang_start_4_s``: the same with 4.
``gang_start_2_spark_s``, ``gang_start_4_spark_s``: the same with ``backend="spark"``; the baseline is the time from the
start of a job of pyspark's ``TorchDistributor`` with the same function and as many processes to its first unit. Both
run in one session that has run a job before. Our workers are warm, their processes have imported torch for an earlier
trial; those of each job of ``TorchDistributor`` are new, since it keeps none.
``gang_first_2_spark_s``, ``gang_first_4_spark_s``: cold beside cold: from the call of ``study.run`` to the first report
of a study's first gang, the start of the driver, of the workers and their import of torch included; the baseline is
the same. Those of Spark are left out, and the reason is printed, where pyspark or pyarrow is not installed.
``gang_unit_ms``: a unit of one step on a gang of 2; the baseline is the same loop in two bare processes of torch.
``gang_restart_s``: from the death of a rank to the first report of the trial's next attempt; the baseline is the start
of a new pair of bare processes.

    python scripts/bench_gang.py [--trials 9] [--units 200] [--jobs 3]
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import itertools
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from _bench import Figure, show

from asyncsearch import FIFO, Study, TrialContext, choice
from asyncsearch.actions import Assign
from asyncsearch.events import Reported, TrainingEnded
from asyncsearch.journal.opening import read_records
from asyncsearch.searchers.grid import GridSearch

WIDTH = 64
BATCH = 32

BARE = """
import sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
rank, size, port, units = map(int, sys.argv[1:])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
from bench_gang import fit
times = fit(rank, size, range(units), lambda loss: None)
if rank == 0:
    print(times[0], *[(b - a) * 1000 for a, b in zip(times, times[1:])])
dist.destroy_process_group()
"""


def fit(rank: int, size: int, units: Any, report: Any) -> list[float]:
    """Fit a small network, one step a unit, and return the time at the end of each unit."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 1))
    parallel = DistributedDataParallel(net) if size > 1 else net
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x = torch.randn(BATCH, WIDTH)[rank::size]
    times = []
    for _ in units:
        optimizer.zero_grad()
        loss = (parallel(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        report(loss.item())
        times.append(time.time())
    return times


def searched(size: int, trials: int, units: int, *, dies: str = "", backend: str = "processes") -> list[Any]:
    """Search on one gang, and return the records of its journal; ``dies``: a file that the second rank leaves once."""
    sys.path.insert(0, str(Path(__file__).parent))

    def train(trial: TrialContext) -> None:
        import torch

        torch.set_num_threads(1)
        trial.process_group()

        def report(loss: float) -> None:
            if dies and trial.rank and trial.params["number"] == 1 and not os.path.exists(dies):
                Path(dies).write_text(str(time.time()))
                os.kill(os.getpid(), signal.SIGKILL)
            trial.report(loss=loss)

        fit(trial.rank, trial.world_size, trial.epochs(), report)

    with tempfile.TemporaryDirectory() as folder:
        study = Study(
            train,
            space={"number": choice(*range(trials))},
            metric="loss",
            mode="min",
            searcher=GridSearch(),
            scheduler=FIFO(max_resource=units),
            store=folder + "/study",
            backend=backend,
            workers_per_trial=size,
        )
        study.run(parallelism=size, display="none")
        return list(read_records(study.store))


def starts(records: Sequence[Any]) -> list[float]:
    """Return the seconds from each assignment but the first to its first report."""
    assigned: dict[int, float] = {}
    found: dict[int, float] = {}
    for record in records:
        for action in record.actions:
            if isinstance(action, Assign):
                assigned[action.work.lease.number] = record.t
        if isinstance(record.event, Reported) and record.event.lease.number not in found:
            found[record.event.lease.number] = record.t - assigned[record.event.lease.number]
    return [seconds for number, seconds in found.items() if number]


def first_s(records: Sequence[Any], began: float) -> float:
    """Return the seconds from a time to the first report."""
    return next(record.t for record in records if isinstance(record.event, Reported)) - began


def unit_ms(records: Sequence[Any]) -> float:
    """Return the median time between two reports of one trial."""
    times = [(r.event.lease.number, r.t) for r in records if isinstance(r.event, Reported)]
    pairs = itertools.pairwise(times)
    return 1000.0 * statistics.median(later[1] - one[1] for one, later in pairs if one[0] == later[0])


def restart_s(records: Sequence[Any], died: float) -> float:
    """Return the seconds from the death of a rank to the first report of another attempt."""
    lost = next(r.event.lease for r in records if isinstance(r.event, TrainingEnded) and r.event.error_kind)
    times = [r.t for r in records if isinstance(r.event, Reported) and r.event.lease.number > lost.number]
    return min(times) - died


def bare(size: int, units: int) -> tuple[float, float]:
    """Return (seconds from the start of new processes to their first unit, milliseconds of a unit)."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    began = time.time()
    command = [sys.executable, "-c", BARE]
    environment = {**os.environ, "PYTHONPATH": f"{Path(__file__).parent}{os.pathsep}{os.pathsep.join(sys.path)}"}
    processes = [
        subprocess.Popen([*command, *map(str, (rank, size, port, units))], stdout=subprocess.PIPE, env=environment)
        for rank in range(size)
    ]
    first, *steps = map(float, processes[0].communicate()[0].split())
    for process in processes:
        process.wait()
    return first - began, statistics.median(steps)


def missing_for_spark() -> str:
    """Return the packages that a job of ``TorchDistributor`` lacks here. Empty if there are all."""
    return ", ".join(name for name in ("pyspark", "pyarrow", "torch") if importlib.util.find_spec(name) is None)


@contextlib.contextmanager
def warm_session(size: int) -> Iterator[None]:
    """Have a session of so many slots that has run a job."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else tasks run the first python3 of PATH
    session = SparkSession.builder.master(f"local[{size}]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.parallelize(range(size), size).map(lambda one: one).collect()
    yield
    session.stop()


def distributed(size: int, jobs: int) -> float:
    """Return the median seconds from the start of a ``TorchDistributor`` job to its first unit."""
    from pyspark.ml.torch.distributor import TorchDistributor

    def train() -> float:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        first = fit(dist.get_rank(), size, range(1), lambda _: None)[0]
        dist.destroy_process_group()
        return first

    def seconds() -> float:
        began = time.time()
        first: float = TorchDistributor(num_processes=size, local_mode=False, use_gpu=False).run(train)
        return first - began

    return statistics.median(seconds() for _ in range(jobs))


def first_on_spark_s(size: int) -> float:
    """Return the seconds from the call of ``study.run`` to the first report of its first gang."""
    began = time.time()
    return first_s(searched(size, 1, 2, backend="spark"), began)


def spark_figures(size: int, trials: int, jobs: int) -> list[Figure]:
    """Return how long a gang takes to start on Spark, warm and cold, beside ``TorchDistributor`` in one session."""
    with warm_session(size):
        job = distributed(size, jobs)
        warm = statistics.median(starts(searched(size, trials, 2, backend="spark")))
        cold = statistics.median(first_on_spark_s(size) for _ in range(jobs))
    return [
        Figure(f"gang_start_{size}_spark_s", warm, "s", job),
        Figure(f"gang_first_{size}_spark_s", cold, "s", job),
    ]


def start_figures(trials: int, jobs: int) -> list[Figure]:
    """Return how long gangs of 2 and of 4 take to start, beside bare processes and beside ``TorchDistributor``."""
    missing, figures = missing_for_spark(), []
    if missing:
        print(f"TorchDistributor is left out: {missing} not installed.", file=sys.stderr)
    for size, name in ((2, "gang_start_s"), (4, "gang_start_4_s")):
        took = statistics.median(starts(searched(size, trials, 2)))
        figures.append(Figure(name, took, "s", bare(size, 2)[0]))
        if not missing:
            figures += spark_figures(size, trials, jobs)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=9)
    parser.add_argument("--units", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=3)
    chosen = parser.parse_args()
    figures = start_figures(chosen.trials, chosen.jobs)
    _, bare_ms = bare(2, chosen.units)
    figures.append(Figure("gang_unit_ms", unit_ms(searched(2, 1, chosen.units)), "ms", bare_ms))
    with tempfile.TemporaryDirectory() as folder:
        died = Path(folder) / "died"
        records = searched(2, 2, 20, dies=str(died))
        figures.append(Figure("gang_restart_s", restart_s(records, float(died.read_text())), "s", bare(2, 2)[0]))
    show("Trials on several workers", figures)


if __name__ == "__main__":
    main()
