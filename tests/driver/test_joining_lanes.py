"""The driver's shell and lanes that join: what waits for what, whose time is over, and whose words still count."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from asyncsearch.actions import AddLane, Assign, StopTraining, lanes_given
from asyncsearch.driver.deletions import CheckpointDeletions
from asyncsearch.driver.node_writers import NodeWriters
from asyncsearch.events import CheckpointCommitted, Outcome, Reported, TrainingEnded, WorkerLost
from asyncsearch.ids import CheckpointRef, Lease
from asyncsearch.rpc.messages import LogLine, LogLines, Refused, WorkerMessage
from asyncsearch.schedulers import FIFO
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store
from tests.driver.test_loop import PATIENCE_S, W0, Harness, call
from tests.engine.player import only
from tests.engine.test_joins import played
from tests.engine.tools import PackPlayer, packed_state

LEASE = Lease(0, W0, 1)
LIMIT_S = 2.0
"""Of a trial: what a test says before a lane is late must be heard by then."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    home = open_store(tmp_path / "study")
    home.prepare()
    return home


class Packs:
    """A driver whose worker trains a pack of four; ``say`` numbers the worker's messages."""

    def __init__(self, store: Store, **settings: Any) -> None:
        self.harness = Harness(store, packed_state(FIFO(max_resource=9), pack=4, max_failures=0), **settings)
        self.count = 0
        assert len(self.harness.begin(40).work.lanes) == 4

    def say(self, *messages: WorkerMessage) -> None:
        for message in messages:
            self.count += 1
            self.harness.say(self.count, message)

    def fail(self, lane: int, kind: str = "ValueError", at: int = 0) -> None:
        self.say(TrainingEnded(LEASE, Outcome.FAILED, at, error="it failed", error_kind=kind, lane=lane))

    def joined(self) -> AddLane:
        added = self.harness.wire.next(AddLane)
        assert isinstance(added, AddLane)
        return added

    def lanes(self) -> list[int]:
        return call(self.harness.driver, lambda state: [attempt.lane for attempt in state.attempts_under(LEASE)])

    def wait_for_all(self) -> None:
        while self.harness.wire.acknowledged.get(timeout=PATIENCE_S) != self.count:
            pass

    def require_not_refused(self) -> None:
        self.wait_for_all()
        assert not [message for message in self.harness.wire.sent.queue if isinstance(message, Refused)]


@pytest.fixture
def packs(store: Store) -> Iterator[Packs]:
    made = Packs(store)
    yield made
    made.harness.driver.close()


def test_what_comes_late_of_a_lane_that_joined_costs_the_others_nothing(packs: Packs) -> None:
    packs.fail(3)
    lane = packs.joined().lane
    packs.say(Reported(LEASE, 1, {"loss": 0.0}, lane), Reported(LEASE, 1, {"loss": 0.0}, 0))
    packs.fail(lane, "MemoryError", at=1)  # the lease is shut to more lanes
    node = call(packs.harness.driver, lambda state: state.trials[4].node)
    packs.say(
        Reported(LEASE, 2, {"loss": 0.0}, lane),
        LogLines(LEASE, (LogLine(1.0, "bye"),), lane=lane),
        CheckpointCommitted(LEASE, CheckpointRef(node, 1), 1, lane),
        TrainingEnded(LEASE, Outcome.RETURNED, 9, lane=lane),
    )
    packs.require_not_refused()
    assert packs.lanes()[:3] == [0, 1, 2]


def test_a_lane_that_the_lease_never_had_is_refused(packs: Packs) -> None:
    packs.fail(3)
    packs.joined()
    packs.say(Reported(LEASE, 1, {"loss": 0.0}, 5))
    assert packs.harness.wire.next(Refused).lease == LEASE


def test_a_lane_that_joined_has_a_time_limit_of_its_own(store: Store) -> None:
    packs = Packs(store, trial_timeout_s=LIMIT_S)
    for lane in (1, 2, 3):
        packs.fail(lane)
    lanes = [packs.joined().lane for _ in range(3)]
    stops = [packs.harness.wire.next(StopTraining).lane for _ in range(4)]
    assert sorted(stops) == [0, *lanes]
    packs.harness.driver.close()


def test_when_lanes_of_the_lease_end_the_others_keep_their_time_limit(store: Store) -> None:
    packs = Packs(store, trial_timeout_s=LIMIT_S)
    packs.fail(3)
    lane = packs.joined().lane
    packs.say(*(TrainingEnded(LEASE, Outcome.RETURNED, 9, lane=first) for first in range(3)))
    late = packs.harness.wire.next(StopTraining)
    while late.lane != lane:  # those that joined later are late too
        late = packs.harness.wire.next(StopTraining)
    packs.harness.driver.close()


def test_when_a_joined_lane_ends_lanes_of_the_lease_keep_their_limit(store: Store) -> None:
    packs = Packs(store, trial_timeout_s=LIMIT_S)
    packs.fail(3)
    packs.fail(packs.joined().lane)
    late = {packs.harness.wire.next(StopTraining).lane for _ in range(3)}
    assert late == {0, 1, 2}
    packs.harness.driver.close()


class Deletions:
    """Deletions that are done only when a test says so, and what is sent to workers meanwhile."""

    def __init__(self) -> None:
        self.player = played(num_trials=9)
        self.gate = threading.Event()
        self.called: queue.Queue[Callable[[], None]] = queue.Queue()
        self.sent: list[Any] = []
        store: Any = SimpleNamespace(delete=lambda checkpoint: self.gate.wait(PATIENCE_S))
        loop: Any = SimpleNamespace(call_soon_threadsafe=lambda then, node: self.called.put(lambda: then(node)))
        self.tested = CheckpointDeletions(self.player.state, store, loop, self.sent.append, NodeWriters())

    def delete(self, action: AddLane | Assign) -> None:
        """Begin to delete in a node in which an action trains."""
        self.tested.delete(CheckpointRef(lanes_given(action)[0].lane.stages[0].node, 1))

    def end(self) -> None:
        self.gate.set()
        self.called.get(timeout=PATIENCE_S)()

    def next_lane(self) -> AddLane:
        """Let one lane end and another one join."""
        lane = max(attempt.lane for attempt in self.player.state.attempts_under(LEASE) if attempt.end is None)
        self.player.end(lane, Outcome.FAILED, 0, "ValueError")
        (added,) = only(self.player.last, AddLane)
        assert isinstance(added, AddLane)
        return added


@pytest.fixture
def deletions() -> Iterator[Deletions]:
    made = Deletions()
    yield made
    made.gate.set()
    made.tested.close()


def test_a_lane_whose_node_is_being_deleted_waits_with_its_stop_alone(deletions: Deletions) -> None:
    (first,) = only(deletions.player.last, AddLane)
    deletions.delete(first)
    deletions.tested.admit(first)
    stop = StopTraining(LEASE, "it is enough", first.lane)
    assert deletions.tested.delay(stop)
    assert not deletions.tested.delay(StopTraining(LEASE, "it is enough", 0))
    other = deletions.next_lane()
    deletions.tested.admit(other)
    assert deletions.sent == [other]


def test_a_lane_that_waited_is_sent_with_its_stop_after_the_deletion(deletions: Deletions) -> None:
    (first,) = only(deletions.player.last, AddLane)
    deletions.delete(first)
    deletions.tested.admit(first)
    stop = StopTraining(LEASE, "it is enough", first.lane)
    assert deletions.tested.delay(stop)
    deletions.end()
    assert deletions.sent == [first, stop]
    assert not deletions.tested.delay(stop)


def test_a_lane_that_waited_is_not_sent_to_a_worker_lost_meanwhile(deletions: Deletions) -> None:
    (first,) = only(deletions.player.last, AddLane)
    deletions.delete(first)
    deletions.tested.admit(first)
    deletions.player.tell(WorkerLost(W0, 1, "gone"))
    deletions.end()
    assert deletions.sent == []


def test_a_lane_waits_behind_the_work_that_it_joins(deletions: Deletions) -> None:
    (first,) = only(deletions.player.last, AddLane)
    (work,) = only(PackPlayer(trials=5).last, Assign)
    deletions.delete(work)
    deletions.tested.admit(work)
    deletions.tested.admit(first)
    assert deletions.sent == []
    deletions.end()
    assert deletions.sent == [work, first]
