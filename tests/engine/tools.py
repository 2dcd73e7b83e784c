"""What the engine's tests share: states, and a search whose journal is kept in memory."""

from __future__ import annotations

from typing import Any

from asyncsearch.engine.state import StudyState
from asyncsearch.simulate import Simulation
from asyncsearch.simulate.workloads import Curves
from asyncsearch.testing.agent_world import World
from asyncsearch.testing.recording import SPACE, Recorded, make_state, replayed

__all__ = ["SPACE", "Recorded", "live_through", "make_state", "record", "replayed", "results"]


def live_through(world: World, steps: int) -> None:
    """Let this many random events happen and the run end, and check now and then what the world remembers."""
    world.live(0)
    for number in range(steps):
        world.step()
        if number % 50 == 0:
            world.require_memory()
            world.require_same_decisions()
    world.require_memory()
    world.drain()
    world.require_memory()


def record(state: StudyState, num_trials: int, workers: int, last: int = 0, **options: Any) -> Recorded:
    """Run a simulated search to its end and return its journal."""
    recorded = Recorded(state, last)
    options.setdefault("workload", Curves(seed=1, spread=0.5))
    simulation = Simulation(state, workers=workers, watch=recorded, **options)
    end = simulation.run(num_trials)
    assert end is not None
    assert end.is_complete, end
    return recorded


def results(state: StudyState) -> list[tuple[Any, ...]]:
    """What users see of a search, without times."""
    return [(t.id, tuple(t.params.items()), t.state, t.target, t.resource, t.value, t.best) for t in state.trials]
