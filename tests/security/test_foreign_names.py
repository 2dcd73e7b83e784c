"""A worker's message may name what is of its own lease; any other is refused and changes nothing.

Messages of every kind are drawn from the grammar of the wire, with leases, lanes, nodes, resources and ranks that are
the sender's own, another worker's, over, or nobody's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.actions import Assign
from asyncsearch.driver.deletions import CheckpointDeletions
from asyncsearch.driver.gangs import Gangs
from asyncsearch.driver.incoming import Incoming
from asyncsearch.driver.node_writers import NodeWriters
from asyncsearch.driver.questions import Received
from asyncsearch.engine import snapshot
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import ProtocolError
from asyncsearch.events import (
    CheckpointCommitted,
    CheckpointFailed,
    Outcome,
    PackMeasured,
    PackSeconds,
    Reported,
    TrainingEnded,
    VolumeMeasured,
)
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, WorkerId
from asyncsearch.rpc.messages import GangNote, LogLine, LogLines, RankFailed
from asyncsearch.schedulers import ASHA, FIFO
from asyncsearch.sizing.gangs import Gang
from asyncsearch.testing.recording import make_state
from tests.driver.test_deletions import Deleted
from tests.engine.player import Player, only
from tests.engine.test_late_metric import STAGES
from tests.engine.tools import packed_state

SENDERS = (WorkerId(0), WorkerId(1))


class Door:
    """The driver's door for messages, and what it lets through."""

    def __init__(self, state: StudyState, workers: int = 2, trials: int = 6) -> None:
        self.player = Player(state)
        self.refused: list[tuple[Any, Lease]] = []
        self.logged: list[str] = []
        self.passed_on: list[Any] = []
        self.stops: list[Lease] = []
        self.gangs = Gangs(lambda *message: self.passed_on.append(message))
        self.player.begin(trials, workers)
        for lease in {attempt.lease for attempt in state.attempts.values()}:
            for attempt in state.attempts_under(lease):
                unit = attempt.batch.stages[0].start + 1
                self.player.tell(Reported(lease, unit, {"loss": 1.0}, attempt.lane))
        door: Any = self
        self.deleted = Deleted()
        self.admission = CheckpointDeletions(state, cast(Any, self.deleted), door, door.refuse, NodeWriters())
        self.incoming = Incoming(state, door, door, door)

    def call_soon_threadsafe(self, *_: Any) -> None: ...

    def refuse(self, worker: Any, lease: Lease, reason: str) -> None:
        self.refused.append((worker, lease))

    def take(self, trial: str, batch: LogLines, start: int = 0) -> None:
        self.logged.append(trial)

    def begin_stop(self, lease: Lease, *, is_refused: bool = False) -> None:
        self.stops.append(lease)

    def note_outage(self, worker: Any, error: str) -> None: ...

    def hear(self, sender: WorkerId, message: Any) -> Any:
        return self.incoming.event_in(Received(sender, 1, 1, message))


def packs() -> StudyState:
    return packed_state(FIFO(max_resource=9), 3)


def alone() -> StudyState:
    return make_state(ASHA(max_resource=9))


def stages() -> StudyState:
    return make_state(FIFO(max_resource=9), space=STAGES)


RESOURCES = st.sampled_from([0, 1, 2, 3, 4, 8, 9, 10, 2**40])
LANES = st.sampled_from([0, 1, 2, 3, 4, 5])
LEASES = st.builds(Lease, st.integers(0, 7), st.sampled_from([*SENDERS, WorkerId(7)]), st.sampled_from([1, 2]))


@st.composite
def messages(draw: Any, nodes: list[NodeKey], current: list[Lease]) -> Any:
    lease = draw(st.one_of(LEASES, st.sampled_from(current)))
    at = CheckpointRef(draw(st.sampled_from([*nodes, NodeKey("f" * 32)])), draw(RESOURCES))
    lane, resource, size = draw(LANES), draw(RESOURCES), draw(st.sampled_from([0, 10, 2**52]))
    kind = draw(st.integers(0, 7))
    if kind == 0:
        return Reported(lease, resource, {"loss": 0.0}, lane)
    if kind == 1:
        saved = draw(st.one_of(st.none(), RESOURCES))
        return TrainingEnded(lease, draw(st.sampled_from(list(Outcome))), resource, saved, lane=lane)
    if kind == 2:
        return CheckpointCommitted(lease, at, size, lane)
    if kind == 3:
        return CheckpointFailed(lease, at, "no", lane, draw(st.sampled_from(["", "store"])))
    if kind == 4:
        return LogLines(lease, (LogLine(0.0, "mine"),), lane=lane)
    if kind == 5:
        return PackMeasured(lease, (PackSeconds(2, 1.0),))
    if kind == 6:
        return VolumeMeasured(lease, 1, 1)
    return draw(st.sampled_from([GangNote(lease, lane, "key", "value"), RankFailed(lease, "error", "exit")]))


def is_own(state: StudyState, sender: WorkerId, message: Any) -> bool:
    """Say independently of the driver whether all that a message names is of a lease of its sender."""
    lease = message.lease
    opened = [
        one for one in state.attempts.values() if one.lease == lease and (lease.worker, lease.epoch) == (sender, 1)
    ]
    if isinstance(message, GangNote | RankFailed):
        return False  # none of them has a gang
    if isinstance(message, PackMeasured | VolumeMeasured):
        return bool(opened)
    lanes = [one for one in opened if one.lane == message.lane]
    if not lanes or isinstance(message, LogLines):
        return bool(lanes)
    its = lanes[0].batch.stages
    units = {(stage.node, unit) for stage in its for unit in range(stage.start + 1, min(stage.stop, 50) + 1)}
    if isinstance(message, CheckpointCommitted | CheckpointFailed):
        return (message.checkpoint.node, message.checkpoint.resource) in units
    reached = message.resource <= its[-1].stop
    if isinstance(message, TrainingEnded):
        saved = message.checkpoint_resource
        keeps = message.resource > its[0].start  # the unit that each has reported
        is_reached = saved is None or (saved <= message.resource and saved in {unit for _, unit in units})
        return bool(reached and keeps and is_reached)
    return bool(reached)


@pytest.mark.parametrize("make", [packs, alone, stages])
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_what_is_not_of_the_senders_lease_is_refused_and_changes_nothing(
    make: Callable[[], StudyState], data: Any
) -> None:
    door = Door(make())
    state = door.player.state
    nodes = sorted({step.node for trial in state.trials for step in trial.steps})
    current = sorted({attempt.lease for attempt in state.attempts.values()}, key=lambda lease: lease.number)
    for _ in range(5):
        sender = data.draw(st.sampled_from(SENDERS))
        message = data.draw(messages(nodes, current))
        own = is_own(state, sender, message)
        before = snapshot.encode(state, 0)
        door.refused.clear()
        event = door.hear(sender, message)
        assert snapshot.encode(state, 0) == before, "the door itself changes no state"
        if own:
            assert event is not None or door.logged
        else:
            assert event is None
            assert not door.logged
            assert not door.passed_on
            if isinstance(message, Reported | TrainingEnded | CheckpointCommitted | CheckpointFailed):
                is_lane_over = door.refused == [] and state.attempts_under(message.lease) != []
                assert is_lane_over or door.refused[-1] == ((sender, 1), message.lease)
        door.logged.clear()


def test_a_late_commit_deletes_nothing_that_is_needed_or_trained() -> None:
    door = Door(alone())
    state, player = door.player.state, door.player
    ended = next(one for one in state.attempts.values() if one.lease.worker == 0)
    saved = CheckpointRef(ended.node_at(1), 1)
    player.tell(TrainingEnded(ended.lease, Outcome.REACHED, 1, 1))
    player.tell(CheckpointCommitted(ended.lease, saved))
    assert saved in state.references
    nodes = sorted({step.node for trial in state.trials for step in trial.steps})
    trained = {stage.node for one in state.attempts.values() for stage in one.batch.stages}
    named = [CheckpointRef(node, resource) for node in (*nodes, NodeKey("f" * 32)) for resource in range(1, 10)]
    for checkpoint in named:
        assert door.hear(WorkerId(0), CheckpointCommitted(ended.lease, checkpoint)) is None
    door.admission.close()
    unneeded = [one for one in named if one not in state.references and one.node not in trained]
    assert door.deleted == [(str(one), ended.lease.number) for one in unneeded]
    assert saved in named
    assert unneeded


def test_a_worker_naming_what_it_does_not_lease_must_end_within_a_time() -> None:
    door = Door(alone())
    (lease,) = {one.lease for one in door.player.state.attempts.values() if one.lease.worker == 0}
    other = next(one for one in door.player.state.attempts.values() if one.lease.worker == 1)
    assert door.hear(WorkerId(0), CheckpointCommitted(lease, CheckpointRef(other.node_at(1), 1))) is None
    assert door.stops == [lease]


def test_notes_beyond_what_the_other_ranks_read_are_refused() -> None:
    state = make_state(FIFO(max_resource=9))
    state.gang = Gang(2)
    player = Player(state)
    player.begin(1, 2)
    (work,) = [action.work for action in only(player.last, Assign)]
    room = [3]

    def send(*_: Any) -> None:
        if not room[0]:
            raise ProtocolError("worker-1 has left 8388608 bytes unacknowledged.")
        room[0] -= 1

    told_to: Any = send
    gangs = Gangs(told_to)
    gangs.begin(work)
    sender = (work.lease.worker, work.lease.epoch)
    told = [gangs.pass_on(sender, GangNote(work.lease, 0, f"key {number}", "v")) for number in range(4)]
    assert told[:3] == [""] * 3
    assert "more than the other ranks read" in told[3]
