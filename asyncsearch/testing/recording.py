"""Searches for the suites: states to begin with, workloads, journals in memory, replays.

Reports have ties, NaN, infinities and values that do not improve; or they identify the training that gave them, so that
a checkpoint of another training is recognised.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from typing import Any

from asyncsearch.actions import AnyAction, CutWork, ExtendWork, GivenLane, SaveAt
from asyncsearch.engine import snapshot
from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.handling import replay
from asyncsearch.engine.invariants import check
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent
from asyncsearch.ids import CheckpointRef, NodeKey, TrialId
from asyncsearch.journal.format import FORMAT, Header, SegmentReader, encode_header, encode_record
from asyncsearch.plan.keys import canonical
from asyncsearch.runner.timeline import LaneTimeline
from asyncsearch.schedulers.asha import ASHA
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.searchers.random import RandomSearch
from asyncsearch.sequences import present
from asyncsearch.space import Space, uniform
from asyncsearch.trial import UNBOUNDED, Params
from asyncsearch.values import spell

VALUES: tuple[float | str, ...] = (0.0, 0.25, 0.5, 0.5, 1.0, "NaN", "Infinity")
"""Few, so that ties are common."""


def coarse(loss: float, sign: float) -> float | str:
    """Return one of ``VALUES`` with this sign; it follows from the loss alone."""
    return spell(sign * float(VALUES[int(loss * 7919) % len(VALUES)]))


class Steps:
    """Each report is one of a few values and does not depend on the training; some trials are twice as slow as others.

    Args:
        mode: ``"min"``, or ``"max"`` for the same search with opposite signs.
    """

    def __init__(self, mode: str = "min") -> None:
        self._sign = 1.0 if mode == "min" else -1.0

    def value(self, trial: TrialId, params: Params, resource: int) -> float:
        """Return the reported value."""
        return self._sign * float(random.Random(f"{trial}/{resource}").choice(VALUES))

    def seconds(self, trial: TrialId, params: Params) -> float:
        """Return the cost of a unit, 1 or 2 virtual seconds."""
        return 1.0 + trial % 2


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
    return restored_from(snapshot.encode(state, 0), fresh)


def restored_from(data: bytes, fresh: StudyState) -> StudyState:
    """Restore a fresh state from a snapshot."""
    taken = snapshot.decode(data)
    assert taken is not None
    snapshot.restore(fresh, taken)
    check(fresh)
    return fresh


class Histories:
    """The loss after some units is a hash of the hyper-parameters of each of them, so it identifies the training.

    Args:
        unit_s: virtual seconds of a unit of training.
    """

    def __init__(self, unit_s: float = 1.0) -> None:
        self.unit_s = unit_s
        self._chains: dict[str, list[bytes]] = {}

    def value(self, trial: TrialId, params: Params, resource: int) -> float:
        """Return the loss, between 0 and 1; it does not depend on the trial."""
        chain = self._chains.setdefault(canonical(params), [b""])
        while len(chain) <= resource:
            step = canonical(present(params, len(chain) - 1)).encode()
            chain.append(hashlib.blake2b(chain[-1] + step, digest_size=8).digest())
        return int.from_bytes(chain[resource], "big") / 2**64

    def seconds(self, trial: TrialId, params: Params) -> float:
        """Return the virtual seconds of a unit."""
        return self.unit_s


HISTORIES = Histories()


class Training:
    """A lane of a lease, a batch of stages; the runner's own ``LaneTimeline`` decides where it saves and ends."""

    def __init__(self, given: GivenLane, *, has_joined: bool) -> None:
        self.lease, self.lane, lane = given
        self.has_joined = has_joined
        self.load = lane.load
        self.is_loaded = lane.load is None
        self.timeline = LaneTimeline(lane.stages)
        self.resource = self.timeline.start
        self.saved: int | None = None
        """The resource of the newest saved checkpoint whose commit has not failed."""
        self.uploads: list[CheckpointRef] = []
        """Saved checkpoints whose commit has neither succeeded nor failed yet."""
        self.amendments: list[SaveAt | CutWork | ExtendWork] = []
        """Sent to it, and not read yet."""
        self.is_ended = self.is_stop_requested = False
        self.is_begun = False
        """Whether its worker has got it, so that nobody can refuse it any more."""
        self.is_dying = False
        """Whether the process of its lease has ended, and only its own end is missing."""

    def value_at(self, resource: int) -> float:
        """Return the loss, which identifies the training up to there."""
        stages = self.timeline.stages
        return HISTORIES.value(TrialId(0), stages[self.timeline.index_at(resource)].params, resource)

    def checkpoint(self) -> CheckpointRef:
        """Return the checkpoint that is saved here."""
        stages = self.timeline.stages
        return CheckpointRef(stages[self.timeline.index_at(self.resource)].node, self.resource)

    def read(self) -> None:
        for amendment in self.amendments:
            self.timeline.amend(amendment)
        self.amendments.clear()

    def units(self, after: int) -> Iterator[tuple[NodeKey, int]]:
        """Yield the units beyond a resource, each by its node."""
        for stage in self.timeline.stages:
            if stage.stop is None:
                yield stage.node, UNBOUNDED
            else:
                yield from ((stage.node, unit) for unit in range(max(stage.start, after) + 1, stage.stop + 1))
