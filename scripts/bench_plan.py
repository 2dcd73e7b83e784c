"""The cost of planning: one decision over small and large plans, memory, and a complete space from an empty plan.

Figures: ``plan_decision_ms_1e3`` and ``plan_decision_ms_1e5`` are the median milliseconds of one scheduling decision
over plans of 10^3 and 10^5 nodes: the checkpoint that ends a batch and its measured time, the end of its lease, a new
request in place of the completed one, the choice of the next batch and its beginning. Eight batches run, and
all trials share their first units. ``bytes_per_node`` is the growth of the plan's memory for each node, including keys
and requests. ``plan_448_s`` is the 448-trial space of 120 epochs from an empty plan: sequences to paths to requests to
the first batch. The baseline of the times is the stage tree, generated from scratch in the same run (for
``plan_448_s`` at each arrival); that of the memory is the goal, 2 KB. ``boundary_ms`` is the time that a boundary
between two stages of a batch, from the end of one unit to the start of the next, adds to the user's own code, which
saves 1 MB; its baseline is that code alone, in a plain loop. It is the difference of two times of about 4 ms, so values
below a tenth of that, positive or negative, are noise.
"""

from __future__ import annotations

import gc
import itertools
import statistics
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from _bench import Figure, show
from _stage_boundary import boundary_ms

from asyncsearch.ids import CheckpointRef, NodeKey, TrialId
from asyncsearch.plan.keys import PathStep, digest, path, root_key
from asyncsearch.plan.search_plan import SearchPlan
from asyncsearch.searchers import GridSearch
from tests.plan.algorithm import choose, generate
from tests.plan.tools import facts_of

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.sequences.spaces import RESNET56_EPOCHS, resnet56_space

WORKERS = 8
SAMPLES = 2_000
EPOCHS = 40
FORKS = ((0, 0), (5, 64), (10, 16), (20, 4), (30, 1))
"""Where the nodes of a path begin, and how many trials have each in common; all have the first one."""


def trial_path(number: int) -> tuple[PathStep, ...]:
    """Return the path of one of many trials, such that there are 1.33 nodes for each trial."""
    steps: list[PathStep] = []
    parent = NodeKey("root")
    for start, trials in FORKS:
        parent = digest(parent, str(start), str(number // trials if trials else 0))
        steps.append(PathStep(start, parent))
    return tuple(steps)


def seconds(ref: CheckpointRef) -> float:
    """Return a measured time per unit; the times vary by a tenth."""
    return 3.0 + int(ref.node, 16) % 30 / 100


class Search:
    """A plan of some size with eight workers, and one new trial for each that is completed."""

    def __init__(self, nodes: int) -> None:
        self.plan = SearchPlan()
        self.numbers = itertools.count()
        self.leases = itertools.count()
        self.known_nodes = 0
        self.running: list[tuple[int, list[CheckpointRef], TrialId]] = []
        shared: set[NodeKey] = set()
        while len(shared) < nodes:
            number = next(self.numbers)
            steps = trial_path(number)
            shared.update(step.node for step in steps)
            self.plan.request(TrialId(number), steps, EPOCHS)
        self.known_nodes = len(shared)

    def take(self) -> None:
        batch = self.plan.next_batch()
        assert batch is not None
        lease = next(self.leases)
        self.plan.begin(lease, batch)
        ends = [CheckpointRef(stage.node, stage.stop) for stage in batch.stages]
        self.running.append((lease, ends, batch.stages[-1].trials[0]))

    def reach_last_boundary(self) -> None:
        """Save everything except the end of the batch that has run longest."""
        _, ends, _ = self.running[0]
        for ref in ends[:-1]:
            self.plan.set_cost(ref.node, seconds(ref))
            self.plan.add_checkpoint(ref)
        del ends[:-1]

    def decide(self, steps: tuple[PathStep, ...], trial: TrialId) -> None:
        """End a batch, and begin another."""
        lease, ends, answered = self.running.pop(0)
        self.plan.set_cost(ends[-1].node, seconds(ends[-1]))
        self.plan.add_checkpoint(ends[-1])
        self.plan.withdraw(answered)
        self.plan.end(lease)
        self.plan.request(trial, steps, EPOCHS)
        self.take()


def decision_ms(nodes: int) -> tuple[float, float]:
    """Return the medians of a decision and of a generation from scratch."""
    search = Search(nodes)
    while len(search.running) < WORKERS:
        search.take()
        search.reach_last_boundary()
    taken: list[float] = []
    for _ in range(SAMPLES):
        search.reach_last_boundary()
        number = next(search.numbers)
        steps = trial_path(number)
        began = time.perf_counter()
        search.decide(steps, TrialId(number))
        taken.append((time.perf_counter() - began) * 1e3)
    return statistics.median(taken), afresh_ms(search.plan)


def afresh_ms(plan: SearchPlan) -> float:
    taken: list[float] = []
    for _ in range(3):
        facts = facts_of(plan)
        began = time.perf_counter()
        choose(generate(facts))
        taken.append((time.perf_counter() - began) * 1e3)
    return statistics.median(taken)


def bytes_per_node() -> float:
    gc.collect()
    tracemalloc.start()
    search = Search(50_000)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return grown / search.known_nodes


def trials_of_resnet56() -> Iterator[tuple[PathStep, ...]]:
    searcher = GridSearch().begin(resnet56_space(), 0)
    for number in itertools.count():
        params = searcher.propose(number)
        if params is None:
            return
        yield path(root_key("bench", 0), params, RESNET56_EPOCHS)


def plan_448_s() -> tuple[float, float]:
    """Return the time for the complete space, and with a generation from scratch at each arrival."""
    began = time.perf_counter()
    plan = SearchPlan()
    for number, steps in enumerate(trials_of_resnet56()):
        plan.request(TrialId(number), steps, RESNET56_EPOCHS)
    assert plan.next_batch() is not None
    taken = time.perf_counter() - began
    began = time.perf_counter()
    plan = SearchPlan()
    for number, steps in enumerate(trials_of_resnet56()):
        plan.request(TrialId(number), steps, RESNET56_EPOCHS)
        choose(generate(facts_of(plan)))
    return taken, time.perf_counter() - began


def planning() -> list[Figure]:
    """Return the figures of the plan itself."""
    (small, small_afresh), (large, large_afresh) = decision_ms(1_000), decision_ms(100_000)
    whole, whole_afresh = plan_448_s()
    return [
        Figure("plan_decision_ms_1e3", small, "ms", small_afresh),
        Figure("plan_decision_ms_1e5", large, "ms", large_afresh),
        Figure("bytes_per_node", bytes_per_node(), "bytes", 2048.0),
        Figure("plan_448_s", whole, "s", whole_afresh),
    ]


def boundary() -> Figure:
    ours, plain = boundary_ms()
    return Figure("boundary_ms", ours - plain, "ms", plain)


def main() -> None:
    """Each group of figures measures for itself; a new one is one more here."""
    show("Planning what trials share", [*planning(), boundary()])


if __name__ == "__main__":
    main()
