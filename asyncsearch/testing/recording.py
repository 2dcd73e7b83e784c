"""A state to begin with, a search whose journal is kept in memory, and its replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asyncsearch.actions import AnyAction
from asyncsearch.engine import snapshot
from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.handling import replay
from asyncsearch.engine.invariants import check
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent
from asyncsearch.journal.format import FORMAT, Header, SegmentReader, encode_header, encode_record
from asyncsearch.schedulers.asha import ASHA
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.searchers.random import RandomSearch
from asyncsearch.space import Space, uniform

SPACE = Space.of({"x": uniform(0.0, 1.0)})


def make_state(
    scheduler: Scheduler | None = None, searcher: Searcher | None = None, space: Space = SPACE, **config: Any
) -> StudyState:
    """Return the state of a fresh study that minimises ``loss``; ``config`` has other fields of ``EngineConfig``."""
    scheduler = scheduler or ASHA(max_resource=9)
    settings: dict[str, Any] = {"study": "test", "metric": "loss", "mode": "min", "seed": 3} | config
    engine = EngineConfig(**settings)
    started = (searcher or RandomSearch()).begin(space, engine.seed)
    return StudyState(engine, started, scheduler.begin(space, engine.seed), scheduler.max_resource)


class Recorded:
    """Watches a simulation: keeps each journal line, and the state after it as bytes."""

    def __init__(self, state: StudyState, last: int = 0) -> None:
        self.state, self.last = state, last
        self.lines = [encode_header(Header(FORMAT, "test", last + 1))]
        self.states: list[bytes] = []
        self.steps: list[tuple[float, AnyEvent, Sequence[AnyAction]]] = []

    def __call__(self, now: float, event: AnyEvent, actions: Sequence[AnyAction]) -> None:
        check(self.state)
        self.last += 1
        self.lines.append(encode_record(self.last, now, event, actions))
        self.states.append(snapshot.encode(self.state, self.last))
        self.steps.append((now, event, actions))


def replayed(state: StudyState, lines: Sequence[bytes], name: str = "000001.jsonl") -> StudyState:
    """Replay the lines of one segment into a fresh state."""
    for entry in SegmentReader().read(name, lines):
        replay(state, entry.event, entry.actions, entry.t)
    check(state)
    return state


def restored(state: StudyState, fresh: StudyState) -> StudyState:
    """Restore a fresh state from the snapshot of another one."""
    taken = snapshot.decode(snapshot.encode(state, 0))
    assert taken is not None
    snapshot.restore(fresh, taken)
    check(fresh)
    return fresh
