"""Measure how fairly studies of weights 1, 2 and 3 share a cluster, and what that costs.

    python scripts/bench_fair.py               60 virtual workers, and 2 real ones for about three minutes
    python scripts/bench_fair.py --virtual     the virtual ones only
    python scripts/bench_fair.py --spark       the real ones only, as tasks of a local Spark session

Figures with the baseline from the same run:

- ``jain``: Jain's index of worker-seconds over weight, on the 2 real workers, while all studies have demand; 1 is fair.
- ``jain_instant``: the least index of workers over weight at any instant, on the 60 virtual workers.
- ``jain_turns``: the index on 2 virtual workers in an hour.
- ``newcomer_s`` and ``newcomer_virtual_s``: seconds until a study that joins has its share, on the 2 and on the 60; the
  baseline is a stage, and on the 60 twice its least time.
- ``throughput`` and ``throughput_virtual``: units a second of all studies together; the baseline is one study alone.
- ``jain_gangs``: the index on the 60 virtual workers in an hour, if the study of weight 3 has 8 workers a trial.
- ``jain_two_gangs``: the index on 4 virtual workers in an hour, of two studies with gangs of 2 and of 3, which never
  fit at once; ``used_two_gangs``: the part of the workers' time in which they train.
- ``gang_wait_s``: seconds until a study of gangs of 8 that joins one that has all 60 virtual workers has its share, 24;
  the baseline is twice the least time of a stage.
- ``change_s``: seconds for which a real worker trains nothing because it changes its study, the median: from when the
  one study gave it back until that of the other in its place has attached; the baseline is what is allowed.
  ``change_most_s`` is the longest of them.

Fewer than 20 stages on the real workers are an error: the index would say nothing.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from _bench import Figure, show

from asyncsearch import FIFO, Cluster, Study, uniform
from asyncsearch.actions import DismissWorker, LaunchWorker
from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.state import StudyState
from asyncsearch.events import Reported, WorkerAttached, WorkerLost
from asyncsearch.journal.opening import read_records
from asyncsearch.schedulers import ASHA
from asyncsearch.searchers.random import RandomSearch
from asyncsearch.simulate import Curves, Delays, SharedSimulation, Simulation
from asyncsearch.sizing.gangs import Gang
from asyncsearch.space import Space

WEIGHTS = {"a": 1, "b": 2, "c": 3}
SPACE = {"x": uniform(0.0, 1.0)}
DELAYS = Delays(start_s=1.0, commit_s=0.1)
UNIT_S, UNITS = 0.5, 4
"""Of a trial on the real workers; it is one stage."""
TURN_S, FROM_S, FOR_S = 12.0, 12.0, 108.0
LEAST_STAGES = 20
REAL_WORKERS = 2


def jain(parts: Iterable[float]) -> float:
    """Return Jain's index of what each has for its weight: 1 if all have the same, 1/n if one has all."""
    values = list(parts)
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


def weighted(held: Mapping[str, float]) -> float:
    return jain(held[name] / weight for name, weight in WEIGHTS.items())


def state(seed: int, max_resource: int = 27, scheduler: type = ASHA, gang: int = 1) -> StudyState:
    config = EngineConfig(study="bench", metric="loss", mode="min", seed=seed, can_save=True)
    space, how = Space.of(SPACE), scheduler(max_resource=max_resource)
    searcher, size = RandomSearch().begin(space, seed), Gang(gang) if gang > 1 else None
    return StudyState(config, searcher, how.begin(space, seed), max_resource, None, size)


def pool(workers: int, num_trials: int, curves: Mapping[str, Any], **options: float) -> SharedSimulation:
    shared = SharedSimulation(workers, **options)
    for name, weight in WEIGHTS.items():
        workload = Curves(seed=weight, **curves)
        shared.submit(name, state(weight), workload, num_trials=num_trials, weight=weight, delays=DELAYS)
    return shared


def trained(*states: StudyState) -> int:
    return sum(trial.trained for one in states for trial in one.trials)


def virtual() -> list[Figure]:
    curves = {"unit_s": 10.0, "spread": 0.3}
    shared = pool(60, 6_000, curves)
    until = 3_600.0
    shared.run(until)
    full = [one for one in shared.holdings if min(one.needed.values()) >= 60]
    assert len(full) == len(shared.holdings), "all had demand for the whole hour"
    alone = Simulation(state(1), Curves(1, **curves), workers=60, delays=DELAYS)
    alone.begin(6_000)
    alone.clock.run(until)
    rate = trained(*(study.state for study in shared.studies.values())) / until
    turns = pool(2, 6_000, curves)
    turns.run(until)
    return [
        Figure("jain_instant", min(weighted(one.held) for one in full), "index", 1.0),
        Figure("jain_turns", weighted({name: turns.held_s(name, 0.0, until) for name in WEIGHTS}), "index", 1.0),
        Figure("newcomer_virtual_s", newcomer(), "s", 27 * 2.0 * 2),
        *gangs(until),
        Figure("throughput_virtual", rate, "units/s", trained(alone.state) / until),
    ]


def gangs(until: float) -> list[Figure]:
    """Return how fair studies are of which some train each trial on several workers."""
    weighty, two = SharedSimulation(60), SharedSimulation(4)
    for name, weight in WEIGHTS.items():
        workload, gang = Curves(weight, unit_s=10.0, spread=0.3), 8 if name == "c" else 1
        weighty.submit(name, state(weight, gang=gang), workload, num_trials=20_000, weight=weight, delays=DELAYS)
    for size in (2, 3):
        workload = Curves(size, unit_s=10.0, spread=0.3)
        two.submit(str(size), state(size, gang=size), workload, num_trials=6_000, delays=DELAYS)
    for shared in (weighty, two):
        shared.run(until)
    used = sum(study.busy_s for study in two.studies.values()) / (4 * until)
    return [
        Figure("jain_gangs", weighted({name: weighty.held_s(name, 0.0, until) for name in WEIGHTS}), "index", 1.0),
        Figure("jain_two_gangs", jain(two.held_s(name, 0.0, until) for name in two.studies), "index", 1.0),
        Figure("used_two_gangs", used, "of the time", 1.0),
        Figure("gang_wait_s", newcomer(gang=8, share=24), "s", 27 * 2.0 * 2),
    ]


def newcomer(gang: int = 1, share: int = 30) -> float:
    """Return after how long a study that joins one alone has its share of 60 workers, with stages of 54 s and more."""
    shared = SharedSimulation(60)
    curves = {"unit_s": 2.0, "spread": 0.3}
    shared.submit("a", state(1, scheduler=FIFO), Curves(1, **curves), num_trials=2_000, delays=DELAYS)
    late = state(2, scheduler=FIFO, gang=gang)
    shared.submit("b", late, Curves(2, **curves), num_trials=2_000, at_s=600.0, delays=DELAYS)
    shared.run(1_000.0)
    return next(one.at_s for one in shared.holdings if one.held.get("b", 0) >= share) - 600.0


def train(trial: Any) -> None:
    counters = {"units": 0}
    for _ in trial.epochs(state={"counters": counters}):
        counters["units"] += 1
        time.sleep(UNIT_S)
        trial.report(loss=trial.params["x"] / counters["units"])


def study(folder: Path, name: str) -> Study:
    options: dict[str, Any] = {"space": SPACE, "metric": "loss", "mode": "min"}
    return Study(train, **options, scheduler=FIFO(max_resource=UNITS), store=folder / name)


def run(studies: Mapping[str, Study], seconds: float, late: str = "", backend: str = "processes") -> float:
    """Run studies on two workers for some seconds, and return when they began; ``late`` joins after the others."""
    began = time.time()
    with Cluster(REAL_WORKERS, backend=backend, display="none", turn=TURN_S) as cluster:
        handles = [
            cluster.submit(one, 10_000, weight=WEIGHTS[name], timeout=seconds)
            for name, one in studies.items()
            if name != late
        ]
        if late:
            time.sleep(FROM_S / 2)
            handles.append(cluster.submit(studies[late], 10_000, weight=WEIGHTS[late], timeout=seconds - FROM_S / 2))
        cluster.watch(handles)
        for handle in handles:
            handle.raise_error()
    return began


class Held(NamedTuple):
    """A worker of a study."""

    launched: float
    attached: float | None
    """None: it never did."""
    given_back: float


def holdings(one: Study) -> list[Held]:
    """Return the workers that a study had and has no more."""
    open_ones: dict[tuple[int, int], list[float]] = {}
    found = []
    for record in read_records(one.store):
        if isinstance(record.event, WorkerAttached):
            open_ones[record.event.worker, record.event.epoch].append(record.t)
        ends = [action for action in record.actions if isinstance(action, DismissWorker)]
        ends += [record.event] if isinstance(record.event, WorkerLost) else []
        for end in ends:
            times = open_ones.pop((end.worker, end.epoch), None)
            if times is not None:
                found.append(Held(times[0], times[1] if len(times) > 1 else None, record.t))
        for action in record.actions:
            if isinstance(action, LaunchWorker):
                open_ones[action.worker, action.epoch] = [record.t]
    return found


def reports(one: Study, from_s: float, to_s: float) -> int:
    events = ((record.t, record.event) for record in read_records(one.store))
    return sum(isinstance(event, Reported) and from_s <= at_s < to_s for at_s, event in events)


def real(folder: Path, backend: str) -> list[Figure]:
    studies = {name: study(folder, name) for name in WEIGHTS}
    began = run(studies, FROM_S + FOR_S + 2.0, late="c", backend=backend)
    from_s, to_s = began + FROM_S, began + FROM_S + FOR_S
    held = {
        name: sum(max(0.0, min(end, to_s) - max(start, from_s)) for start, _, end in holdings(one))
        for name, one in studies.items()
    }
    units = sum(reports(one, from_s, to_s) for one in studies.values())
    single = study(folder, "alone")
    alone_from = run({"a": single}, 42.0, backend=backend) + 5.0
    alone = reports(single, alone_from, alone_from + 36.0) / 36.0
    joined = min(record.t for record in read_records(studies["c"].store))
    has_share = min(one.attached for one in holdings(studies["c"]) if one.attached)
    stages = units // UNITS
    print(f"worker-seconds: {held}; {stages} stages", file=sys.stderr)
    if stages < LEAST_STAGES:
        sys.exit(f"{stages} stages on the real workers, at least {LEAST_STAGES} are needed: is the machine busy?")
    changes = gaps({name: holdings(one) for name, one in studies.items()}, from_s)
    return [
        Figure("jain", weighted(held), "index", 1.0),
        Figure("newcomer_s", has_share - joined, "s", UNIT_S * UNITS),
        Figure("throughput", units / FOR_S, "units/s", alone),
        Figure("change_s", statistics.median(changes), "s", 1.0),
        Figure("change_most_s", max(changes), "s", 1.0),
    ]


def gaps(held: Mapping[str, Sequence[Held]], from_s: float) -> list[float]:
    """Return how long each slot that changed its study after ``from_s`` was without a worker that had attached.

    A worker takes the slot that is free for longest: where two are, no gap is measured from the end of the other one.
    """
    moves = [(worker.launched, 1, name, worker) for name, workers in held.items() for worker in workers]
    moves += [(worker.given_back, 0, name, worker) for name, workers in held.items() for worker in workers]
    free: deque[tuple[float, str]] = deque((-math.inf, "") for _ in range(REAL_WORKERS))
    found = []
    for at_s, is_launch, name, worker in sorted(moves, key=lambda move: move[:2]):
        if not is_launch:
            free.append((at_s, name))
            continue
        since_s, former = free.popleft()
        if worker.attached and former not in ("", name) and at_s > from_s:
            found.append(worker.attached - since_s)
    return found


@contextmanager
def session() -> Iterator[None]:
    """Have a local Spark session with a slot for each worker."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else tasks run the first python3 of PATH
    made = SparkSession.builder.master(f"local[{REAL_WORKERS}]").config("spark.ui.enabled", "false").getOrCreate()
    yield
    made.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--virtual", action="store_true", help="only the virtual workers")
    parser.add_argument("--spark", action="store_true", help="only the real ones, on Spark")
    options = parser.parse_args()
    figures = [] if options.spark else virtual()
    if not options.virtual:
        with tempfile.TemporaryDirectory() as folder, session() if options.spark else nullcontext():
            figures = [*real(Path(folder), "spark" if options.spark else "processes"), *figures]
    show("three studies of weights 1, 2 and 3 on one cluster", figures)


if __name__ == "__main__":
    main()
