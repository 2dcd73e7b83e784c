"""The time to simulate a search of 100,000 trials on 500 workers, on one core.

Figures: ``simulate_100k_s`` is the CPU time of the complete simulation: ASHA with a reduction factor of 4 up to 256
units, a report after each unit as in real trials, stragglers with a standard deviation of 0.5. The baseline is the time
of the engine alone for the same events, measured in the same run, including proposals: the ratio is the overhead of the
simulator. ``simulate_sparse_s`` is the same search with reports at rungs only.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence

from _bench import Figure, show

from asyncsearch.actions import AnyAction
from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.handling import handle
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent
from asyncsearch.schedulers import ASHA
from asyncsearch.searchers import RandomSearch
from asyncsearch.simulate import Chance, Curves, Faults, Simulation, TrainingModel
from asyncsearch.space import Space, uniform

TRIALS, WORKERS = 100_000, 500
SPACE = Space.of({"x": uniform(0.0, 1.0)})


def fresh() -> StudyState:
    scheduler = ASHA(max_resource=256, reduction_factor=4)
    config = EngineConfig(study="bench", metric="loss", mode="min", share=False)
    return StudyState(config, RandomSearch().begin(SPACE, 0), scheduler.begin(), scheduler.max_resource)


def simulate_s(report_every: int | None, steps: list[tuple[float, AnyEvent]] | None = None) -> float:
    """Return the seconds of a simulation; if ``steps`` is given, record its events there."""

    def watch(now: float, event: AnyEvent, actions: Sequence[AnyAction]) -> None:  # noqa: ARG001
        if steps is not None:
            steps.append((now, event))

    gc.collect()
    simulation = Simulation(
        fresh(),
        Curves(),
        workers=WORKERS,
        faults=Faults(chance=Chance(spread=0.5)),
        training=TrainingModel(report_every=report_every),
        watch=None if steps is None else watch,
    )
    began = time.process_time()
    end = simulation.run(TRIALS)
    taken = time.process_time() - began
    assert end is not None
    assert end.is_complete
    return taken


def engine_s(report_every: int | None) -> float:
    """Return the seconds of the engine alone for the same events."""
    steps: list[tuple[float, AnyEvent]] = []
    simulate_s(report_every, steps)
    state = fresh()
    gc.collect()
    gc.freeze()  # a million events that nobody of these runs for
    began = time.process_time()
    for now, event in steps:
        handle(state, event, now)
    taken = time.process_time() - began
    gc.unfreeze()
    return taken


def main() -> None:
    show(
        f"Simulating {TRIALS:,} trials on {WORKERS} workers",
        [
            Figure("simulate_100k_s", simulate_s(1), "s", engine_s(1)),
            Figure("simulate_sparse_s", simulate_s(None), "s", engine_s(None)),
        ],
    )


if __name__ == "__main__":
    main()
