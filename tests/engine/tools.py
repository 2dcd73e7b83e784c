"""What the engine's tests share: states, and a search whose journal is kept in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from asyncsearch.actions import AnyAction, Assign
from asyncsearch.engine import snapshot
from asyncsearch.engine.handling import handle
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, Outcome, Reported, TrainingEnded
from asyncsearch.ids import Lease, WorkerId
from asyncsearch.journal.format import SegmentReader, encode_record
from asyncsearch.schedulers import ASHA, FIFO, PBT, SHA, Hyperband, MedianStopping
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.simulate import Simulation
from asyncsearch.simulate.workloads import Curves
from asyncsearch.sizing.packing import Packing
from asyncsearch.space import Space
from asyncsearch.testing.random_cluster import RandomCluster
from asyncsearch.testing.recording import SPACE, Recorded, make_state, replayed, restored_from
from tests.engine.player import Player, only

__all__ = ["SPACE", "Recorded", "live_through", "make_state", "record", "replayed", "results"]

W0 = WorkerId(0)
PACKED_SCHEDULERS = [
    pytest.param(FIFO(max_resource=4), id="fifo"),
    pytest.param(ASHA(max_resource=9), id="asha"),
    pytest.param(ASHA(max_resource=9, variant="stopping"), id="stopping"),
    pytest.param(SHA(max_resource=9), id="sha"),
    pytest.param(Hyperband(max_resource=9), id="hyperband"),
    pytest.param(Hyperband(max_resource=9, variant="synchronous"), id="synchronous hyperband"),
    pytest.param(PBT(max_resource=9, perturbation_interval=3), id="pbt"),
    pytest.param(MedianStopping(max_resource=6), id="median"),
]


def packed_state(
    scheduler: Scheduler,
    pack: int | None = 4,
    space: Space = SPACE,
    searcher: Any = None,
    strategy: Any = "plan",
    **config: Any,
) -> StudyState:
    state = make_state(scheduler, searcher, space, **config)
    state.packing = None if pack is None else Packing(pack, strategy)
    return state


class PackPlayer(Player):
    """Three trials of FIFO up to 3 units on one worker, as one pack."""

    def __init__(self, trials: int = 3, *, joins: bool = True, **config: Any) -> None:
        super().__init__(packed_state(FIFO(max_resource=3), **config))
        assert self.state.packing is not None
        self.state.packing = msgspec.structs.replace(self.state.packing, takes_joiners=joins)
        self.begin(trials, 1)
        self.lease = Lease(0, W0, 1)

    def lane(self, lane: int, resource: int) -> list[Any]:
        return self.tell(Reported(self.lease, resource, {"loss": 1.0}, lane))

    def end(self, lane: int, outcome: Outcome, resource: int, kind: str = "") -> list[Any]:
        return self.tell(TrainingEnded(self.lease, outcome, resource, error_kind=kind, error=kind, lane=lane))

    def finish(self, lane: int) -> None:
        self.lane(lane, 3)
        self.end(lane, Outcome.RETURNED, 3)

    def works(self) -> list[int]:
        """Return how many lanes each assignment of the last event has."""
        return [len(action.work.lanes) for action in only(self.last, Assign)]

    def losses(self) -> list[int]:
        return [trial.losses for trial in self.state.trials]


def live_through(world: RandomCluster, steps: int) -> None:
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


class JournalLines(Recorded):
    """Neither checks the state after each event nor keeps it, which takes a time that grows with the trials."""

    def __call__(self, now: float, event: AnyEvent, actions: Sequence[AnyAction]) -> None:
        self.last += 1
        self.lines.append(encode_record(self.last, now, event, actions))
        self.steps.append((now, event, actions))


def record(
    state: StudyState, num_trials: int, workers: int, last: int = 0, kind: type[Recorded] = Recorded, **options: Any
) -> Recorded:
    """Run a simulated search to its end and return its journal."""
    recorded = kind(state, last)
    options.setdefault("workload", Curves(seed=1, spread=0.5))
    simulation = Simulation(state, workers=workers, watch=recorded, **options)
    end = simulation.run(num_trials)
    assert end is not None
    assert end.is_complete, end
    return recorded


def require_each_state(recorded: Recorded, fresh: Callable[[], StudyState]) -> None:
    """Require that the journal up to each record, and the snapshot taken there, give the state of then."""
    for cut, expected in enumerate(recorded.states, 1):
        assert snapshot.encode(replayed(fresh(), recorded.lines[: cut + 1]), cut) == expected, recorded.steps[cut - 1]
        assert snapshot.encode(restored_from(expected, fresh()), cut) == expected


def require_same_decisions(recorded: Recorded, state: StudyState) -> None:
    """Require that a fresh state, told the recorded events, decides as recorded."""
    for entry in SegmentReader().read("000001.jsonl", recorded.lines):
        assert handle(state, entry.event, entry.t) == list(entry.actions)


def results(state: StudyState) -> list[tuple[Any, ...]]:
    """What users see of a search, without times."""
    return [(t.id, tuple(t.params.items()), t.state, t.target, t.resource, t.value, t.best) for t in state.trials]
