"""How long one decision takes, and how much memory a finished trial costs, with ASHA.

Figures: ``decide_us_1e3`` and ``decide_us_1e5`` are the median microseconds that ``StudyState.handle`` takes at 10^3
and 10^5 known trials from a report *at a rung* to the next work of its worker: the report, its checkpoint and the end
of its training, with the promotion or the new trial that they lead to. What the searcher needs for a proposal is its
own cost and is left out: proposals are drawn beforehand. ``report_us_1e5`` is a report between rungs.
``bytes_per_trial`` is what the driver's memory grows by for each trial. The baseline of the times is a rung that sorts
its entries at each report, measured in the same run; that of the memory is the goal, 1 KB.
"""

from __future__ import annotations

import gc
import statistics
import time
import tracemalloc

from _bench import Figure, show

from asyncsearch import ASHA, RandomSearch, Space, loguniform, randint, uniform
from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.state import StudyState
from asyncsearch.events import (
    AnyEvent,
    CheckpointCommitted,
    DriverStarted,
    Outcome,
    Reported,
    RunRequested,
    TrainingEnded,
    WorkerAttached,
)
from asyncsearch.ids import CheckpointRef, WorkerId
from asyncsearch.randomness import generator
from asyncsearch.searchers import SearcherState
from asyncsearch.trial import Params

SPACE = Space.of({"lr": loguniform(1e-5, 1e-1), "width": randint(16, 512), "dropout": uniform(0.0, 0.5)})
SAMPLES = 2_000


class Drawn(SearcherState):
    """Proposals that were drawn beforehand, over and over."""

    def __init__(self) -> None:
        source = RandomSearch().begin(SPACE, 0)
        self.proposals = [source.propose(number) for number in range(5_000)]

    def propose(self, number: int) -> Params | None:
        params = self.proposals[number % len(self.proposals)]
        return None if params is None else dict(params)


class Search:
    """One worker that is told what to do and whose trials report random values."""

    def __init__(self) -> None:
        config = EngineConfig(study="bench", metric="loss", mode="min", share=False)
        scheduler = ASHA(max_resource=81)
        self.state = StudyState(config, Drawn(), scheduler.begin(), scheduler.max_resource)
        self.random = generator(0, "bench", 0)
        self.now = 0.0
        self.report_us: list[float] = []
        self.rung_us: list[float] = []
        for event in (DriverStarted("bench"), RunRequested(None, 1), WorkerAttached(WorkerId(0), 1)):
            self.state.handle(event, 0.0)

    def tell(self, event: AnyEvent) -> float:
        self.now += 1.0
        began = time.perf_counter_ns()
        self.state.handle(event, self.now)
        return (time.perf_counter_ns() - began) / 1e3

    def train(self) -> None:
        """Let the worker train what it holds to its target."""
        lease_number = self.state.pool.slots[WorkerId(0)].lease
        assert lease_number is not None
        attempt = self.state.attempts[lease_number]
        node = attempt.batch.stages[-1].node
        for resource in range(attempt.resource + 1, attempt.stop + 1):
            self.report_us.append(self.tell(Reported(attempt.lease, resource, {"loss": float(self.random.random())})))
        end = Outcome.RETURNED if attempt.stop == 81 else Outcome.REACHED
        at_rung = self.report_us.pop()
        at_rung += self.tell(CheckpointCommitted(attempt.lease, CheckpointRef(node, attempt.stop)))
        at_rung += self.tell(TrainingEnded(attempt.lease, end, attempt.stop, attempt.stop))
        self.rung_us.append(at_rung)

    def grow(self, trials: int) -> None:
        while len(self.state.trials) < trials:
            self.train()


def sorting_us(size: int) -> float:
    """The baseline: one sort of all values of a rung for each report."""
    random = generator(1, "bench", size)
    values = [float(value) for value in random.random(size)]
    taken = []
    for _ in range(9):
        began = time.perf_counter_ns()
        sorted(values)[size // 3]
        taken.append((time.perf_counter_ns() - began) / 1e3)
    return statistics.median(taken)


def decide_us(size: int) -> tuple[float, float]:
    """Return the medians at a rung and between rungs."""
    search = Search()
    search.grow(size)
    gc.collect()
    search.report_us.clear()
    search.rung_us.clear()
    while len(search.rung_us) < SAMPLES:
        search.train()
    return statistics.median(search.rung_us), statistics.median(search.report_us)


def bytes_per_trial() -> float:
    search = Search()
    search.grow(1_000)
    gc.collect()
    tracemalloc.start()
    search.grow(11_000)
    search.report_us, search.rung_us = [], []
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return grown / 10_000


def main() -> None:
    (small, _), (large, between) = decide_us(1_000), decide_us(100_000)
    show(
        "Decisions of ASHA: a report, and what its end leads to",
        [
            Figure("decide_us_1e3", small, "us", sorting_us(1_000)),
            Figure("decide_us_1e5", large, "us", sorting_us(100_000)),
            Figure("report_us_1e5", between, "us", sorting_us(100_000)),
            Figure("bytes_per_trial", bytes_per_trial(), "bytes", 1024.0),
        ],
    )


if __name__ == "__main__":
    main()
