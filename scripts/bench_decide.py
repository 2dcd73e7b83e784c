"""The time of one decision with each method, and the memory of a finished trial.

A decision is the work of ``handle`` from the last report of a worker's work, at a rung or where a trial is stopped or
ends, to its next work: the report, its checkpoint and the end of its training, with the resulting promotion or new
trial. The searcher's time for a proposal is excluded: proposals are drawn beforehand. Each method grows by its own
decisions to 10^3, 10^4, 10^5 and 10^6 known trials; the table has the median microseconds at each size: the least
median of forty rounds, which take some seconds, since the speed of a machine changes for seconds at a time, by as much
as the differences that are measured here. It takes half an hour, and three minutes with ``--largest 10000``.

Figures: ``decide_us_1e3`` and ``decide_us_1e5`` are for ASHA, ``decide_us_1e6`` for the slowest method;
``decide_growth`` is the ratio of its time at the last size to the first. ``report_us_1e5`` is a report of ASHA between
rungs; ``bytes_per_trial`` is the growth of the driver's memory for each trial of ASHA, ``bytes_per_trial_most`` the
same for the method with the largest growth. Trials do not share, so these are the costs of the methods; PBT is also
measured over the plan, which it uses unless ``share=False``, up to 10^5: ``decide_us_plan``, ``bytes_per_trial_plan``.
The baseline of the times is Optuna's pruner for successive halving with as many trials or, at 10^6 and without Optuna,
a rung that sorts its entries at each report; that of the memory is the goal, 1 KB.

    python scripts/bench_decide.py [--largest 10000] [--methods ASHA SHA]
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
import tracemalloc
from dataclasses import dataclass

from _bench import Figure, show

from asyncsearch import (
    ASHA,
    FIFO,
    PBT,
    SHA,
    Hyperband,
    MedianStopping,
    RandomSearch,
    Space,
    loguniform,
    randint,
    uniform,
)
from asyncsearch.actions import AnyAction, StopTraining
from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.handling import handle
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
from asyncsearch.schedulers import Scheduler
from asyncsearch.searchers import SearcherState
from asyncsearch.trial import UNBOUNDED, Params

SPACE = Space.of({"lr": loguniform(1e-5, 1e-1), "width": randint(16, 512), "dropout": uniform(0.0, 0.5)})
SAMPLES, ROUNDS = 1_000, 40
SIZES = (1_000, 10_000, 100_000, 1_000_000)
LARGEST_PLAN = 100_000
OVER_PLAN = "PBT over the plan"
"""Measured with trials that share: what the plan costs on top of a method."""
OPTUNA_SIZES = (1_000, 100_000)

METHODS: dict[str, Scheduler] = {
    "ASHA": ASHA(max_resource=81),
    "ASHA, stopping": ASHA(max_resource=81, variant="stopping"),
    "SHA": SHA(max_resource=81, bracket_size=81),
    "ASHA, endless": ASHA(max_resource=None),
    "Hyperband": Hyperband(max_resource=81),
    "Hyperband, synchronous": Hyperband(max_resource=81, variant="synchronous"),
    "median stopping": MedianStopping(max_resource=9),
    "PBT": PBT(max_resource=12, perturbation_interval=3, population=16),
    OVER_PLAN: PBT(max_resource=12, perturbation_interval=3, population=16),
    "FIFO": FIFO(max_resource=1),
}


class Drawn(SearcherState):
    """Repeats proposals that were drawn beforehand, with slight changes: equal ones would share."""

    def __init__(self) -> None:
        source = RandomSearch().begin(SPACE, 0)
        self.proposals = [source.propose(number) for number in range(5_000)]

    def propose(self, number: int) -> Params | None:
        params = self.proposals[number % len(self.proposals)]
        return None if params is None else {**params, "lr": params["lr"] * (1 - number * 1e-9)}


class Search:
    """One worker that follows the engine's actions, and whose trials report random values."""

    def __init__(self, method: str) -> None:
        scheduler = METHODS[method]
        config = EngineConfig(study="bench", metric="loss", mode="min", share=method == OVER_PLAN)
        self.state = StudyState(config, Drawn(), scheduler.begin(SPACE, 0), scheduler.max_resource)
        self.random = generator(0, "bench", 0)
        self.now = 0.0
        self.report_us: list[float] = []
        self.decide_us: list[float] = []
        for event in (DriverStarted("bench"), RunRequested(None, 1), WorkerAttached(WorkerId(0), 1)):
            handle(self.state, event, 0.0)

    def tell(self, event: AnyEvent) -> tuple[float, list[AnyAction]]:
        self.now += 1.0
        began = time.perf_counter_ns()
        actions = handle(self.state, event, self.now)
        return (time.perf_counter_ns() - began) / 1e3, actions

    def train(self) -> None:
        """Let the worker train its trial to the target, or until it is stopped."""
        lease_number = self.state.pool.slots[WorkerId(0)].lease
        assert lease_number is not None
        attempt = self.state.attempts[lease_number]
        lease, stage = attempt.lease, attempt.batch.stages[-1]
        for resource in range(attempt.resource + 1, stage.stop + 1):
            taken, actions = self.tell(Reported(lease, resource, {"loss": float(self.random.random())}))
            if any(isinstance(action, StopTraining) for action in actions):
                self.decide_us.append(taken + self.tell(TrainingEnded(lease, Outcome.STOPPED, resource))[0])
                return
            self.report_us.append(taken)
        taken = self.report_us.pop()
        is_end = stage.stop in (self.state.max_resource, UNBOUNDED)
        taken += self.tell(CheckpointCommitted(lease, CheckpointRef(stage.node, stage.stop)))[0]
        outcome = Outcome.RETURNED if is_end else Outcome.REACHED
        taken += self.tell(TrainingEnded(lease, outcome, stage.stop, stage.stop))[0]
        self.decide_us.append(taken)

    def grow(self, trials: int) -> None:
        """Search until there are that many trials; without garbage collection, which would find nothing."""
        gc.disable()
        while len(self.state.trials) < trials:
            self.train()
            if len(self.decide_us) > SAMPLES:
                self.decide_us.clear()
                self.report_us.clear()
        gc.enable()
        gc.collect()
        gc.freeze()


@dataclass(frozen=True)
class Measured:
    """Medians in microseconds, at each size."""

    decide_us: list[float]
    report_us: list[float]


def measure(method: str, sizes: list[int]) -> Measured:
    decide_us, report_us = [], []
    search = Search(method)
    for size in sizes:
        rounds = []
        for _ in range(ROUNDS):
            if len(search.state.trials) > 2 * size:
                gc.unfreeze()
                search = Search(method)
            search.grow(size)
            search.decide_us, search.report_us = [], []
            while len(search.decide_us) < SAMPLES:
                search.train()
            rounds.append((statistics.median(search.decide_us), statistics.median(search.report_us or [0.0])))
        decide_us.append(min(decide for decide, _ in rounds))
        report_us.append(min(report for _, report in rounds))
    gc.unfreeze()
    return Measured(decide_us, report_us)


def sorting_us(size: int) -> float:
    """The baseline without Optuna: one sort of all values of a rung for each report."""
    random = generator(1, "bench", size)
    values = [float(value) for value in random.random(size)]
    taken = []
    for _ in range(9):
        began = time.perf_counter_ns()
        sorted(values)[size // 3]
        taken.append((time.perf_counter_ns() - began) / 1e3)
    return statistics.median(taken)


def optuna_us(size: int) -> float | None:
    """The baseline: the time of Optuna's pruner for a report at the lowest rung, which ``size`` trials have reached."""
    try:
        import optuna
    except ImportError:
        return None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)
    study = optuna.create_study(pruner=pruner)
    random = generator(2, "bench", size)
    rung = "completed_rung_0"
    for value in random.random(size):
        trial = optuna.trial.create_trial(
            state=optuna.trial.TrialState.PRUNED,
            value=float(value),
            intermediate_values={1: float(value)},
            system_attrs={rung: float(value)},
        )
        study._storage.create_new_trial(study._study_id, template_trial=trial)
    taken = []
    for value in random.random(15):
        asked = study.ask()
        asked.report(float(value), 1)
        began = time.perf_counter_ns()
        asked.should_prune()
        taken.append((time.perf_counter_ns() - began) / 1e3)
        study.tell(asked, state=optuna.trial.TrialState.PRUNED)
    return statistics.median(taken)


def bytes_per_trial(method: str) -> float:
    """The memory that 5,000 trials add after the caches of bounded size are full."""
    tracemalloc.start()
    search = Search(method)
    sizes = []
    for trials in (6_000, 11_000):
        search.grow(trials)
        search.report_us, search.decide_us = [], []
        gc.unfreeze()
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    return (sizes[1] - sizes[0]) / 5_000


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure decisions.")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="leave larger searches out")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    arguments = parser.parse_args()
    sizes = [size for size in SIZES if size <= arguments.largest]
    found, memory = {}, {}
    print(f"{'decide_us at':<24}{''.join(f'{size:>12,}' for size in sizes)}{'bytes a trial':>16}", flush=True)
    for name in arguments.methods:
        found[name] = measure(name, [size for size in sizes if name != OVER_PLAN or size <= LARGEST_PLAN])
        memory[name] = bytes_per_trial(name)
        taken = "".join(f"{median:>12.1f}" for median in found[name].decide_us)
        print(f"{name:<24}{taken:<{12 * len(sizes)}}{memory[name]:>16.0f}", flush=True)
    figures = []
    over_plan, plain = found.get(OVER_PLAN), [name for name in found if name != OVER_PLAN]
    if plain:
        slowest = max(plain, key=lambda name: found[name].decide_us[-1])
        first_us, last_us = found[slowest].decide_us[0], found[slowest].decide_us[-1]
        if sizes[-1] == SIZES[-1]:
            print(f"the slowest at {sizes[-1]:,}: {slowest}")
            figures.append(Figure("decide_us_1e6", last_us, "us", sorting_us(sizes[-1])))
        figures.append(Figure("decide_growth", last_us / first_us, "", 1.0))
        figures.append(Figure("bytes_per_trial_most", max(memory[name] for name in plain), "bytes", 1024.0))
    if over_plan is not None:
        figures.append(
            Figure("decide_us_plan", over_plan.decide_us[-1], "us", sorting_us(min(sizes[-1], LARGEST_PLAN)))
        )
        figures.append(Figure("bytes_per_trial_plan", memory[OVER_PLAN], "bytes", 1024.0))
    asha = found.get("ASHA")
    if asha is not None:
        for size in [size for size in OPTUNA_SIZES if size <= sizes[-1]]:
            name = f"decide_us_1e{len(str(size)) - 1}"
            optuna = optuna_us(size)
            baseline = sorting_us(size) if optuna is None else optuna
            figures.append(Figure(name, asha.decide_us[sizes.index(size)], "us", baseline))
            if size == 100_000:
                figures.append(Figure("report_us_1e5", asha.report_us[sizes.index(size)], "us", baseline))
        figures.append(Figure("bytes_per_trial", memory["ASHA"], "bytes", 1024.0))
    show("Decisions: a report, and what its end leads to", figures)


if __name__ == "__main__":
    main()
