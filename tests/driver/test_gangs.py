"""What the driver tells the ranks of a gang: notes of its own members, and its end, whenever and however it comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asyncsearch.actions import AnyAction, Assign, StopTraining
from asyncsearch.driver.gangs import Gangs
from asyncsearch.events import (
    AnyEvent,
    DriverStarted,
    Outcome,
    RunRequested,
    TrainingEnded,
    WorkerAttached,
    WorkerLost,
)
from asyncsearch.ids import Lease, WorkerId
from asyncsearch.rpc.messages import GangNote, Hello, RankFailed, Refused
from asyncsearch.schedulers import FIFO
from asyncsearch.sizing.gangs import Gang
from asyncsearch.store import open_store
from tests.driver.test_loop import PATIENCE_S, Harness
from tests.engine.player import Player, lease_of
from tests.engine.tools import make_state

UNITS = 3
FIRST, SECOND = (WorkerId(0), 1), (WorkerId(1), 1)


class Side(Player):
    """A study of gangs of two, and what its driver sends; ``give`` is for work that is durable."""

    def __init__(self, workers: int = 2) -> None:
        state = make_state(FIFO(max_resource=UNITS))
        state.gang = Gang(2)
        super().__init__(state)
        self.sent: list[tuple[int, Any]] = []
        self.gangs = Gangs(lambda worker, epoch, message: self.sent.append((worker, message)))
        self.tell(DriverStarted("test"))
        self.tell(RunRequested(None, workers))
        for number in range(workers):
            self.tell(WorkerAttached(WorkerId(number), 1))
            if number == 1:
                self.lease = lease_of(self.last)
            if workers > 2:
                self.give()

    def tell(self, event: AnyEvent) -> list[AnyAction]:
        decided = super().tell(event)
        self.gangs.end_those_over(self.state, event)
        return decided

    def give(self, decided: list[AnyAction] | None = None) -> None:
        """Give the work of the last event to its workers."""
        for action in self.last if decided is None else decided:
            if isinstance(action, Assign):
                self.gangs.begin(action.work)
        self.gangs.end_those_late(self.state)

    def end(self, outcome: Outcome = Outcome.RETURNED, lease: Lease | None = None, **more: Any) -> list[AnyAction]:
        lease = lease or self.lease
        self.report(lease, UNITS)
        return self.tell(TrainingEnded(lease, outcome, UNITS, **more))

    def told(self) -> list[tuple[int, type[Any]]]:
        """Return who was sent what since the last call."""
        sent, self.sent = self.sent, []
        return [(worker, type(message)) for worker, message in sent]


def begun() -> Side:
    side = Side()
    side.give()
    return side


def note(lease: Lease, rank: int) -> GangNote:
    return GangNote(lease, rank, "address", "here")


def test_a_note_reaches_the_other_ranks_only() -> None:
    side = begun()
    side.gangs.pass_on(SECOND, note(side.lease, 1))
    assert side.told() == [(0, GangNote)]


@pytest.mark.parametrize("sender", [(WorkerId(1), 2), (WorkerId(2), 1), FIRST], ids=["later", "stranger", "rank 0"])
def test_a_note_of_one_who_is_not_that_rank_reaches_nobody(sender: tuple[WorkerId, int]) -> None:
    side = begun()
    side.gangs.pass_on(sender, note(side.lease, 1))
    assert side.told() == []


def test_once_rank_0_has_ended_in_order_the_others_come_to_their_own_end() -> None:
    side = begun()
    side.end()
    assert side.told() == [(1, StopTraining)]
    side.gangs.pass_on(SECOND, note(side.lease, 1))
    assert side.told() == [], "a note of a gang that is over"


def test_where_rank_0_has_failed_the_others_are_ended_at_once() -> None:
    side = begun()
    side.end(Outcome.FAILED, error="ValueError: x")
    assert side.told() == [(1, Refused)]


def test_a_failed_rank_ends_all_ranks_at_once_and_the_error_names_it() -> None:
    side = begun()
    failed = RankFailed(side.lease, "ValueError: x", "")
    end = side.gangs.end_of(SECOND, failed, side.state.attempt(side.lease))
    assert end is not None
    assert (end.lease, end.outcome) == (side.lease, Outcome.FAILED)
    assert end.error == "In rank 1 of a gang of 2 workers:\nValueError: x"
    side.tell(end)
    assert sorted(side.told()) == [(0, Refused), (1, Refused)]
    assert side.gangs.end_of(SECOND, failed, side.state.attempt(side.lease)) is None


@pytest.mark.parametrize(
    ("outcome", "found"),
    [
        (Outcome.STOPPED, (Outcome.RETURNED, "x is bad")),
        (Outcome.FAILED, (Outcome.RETURNED, "x is bad")),
        (Outcome.RETURNED, (Outcome.RETURNED, "own")),
        (Outcome.REACHED, (Outcome.REACHED, "own")),
    ],
)
def test_a_rank_that_stops_itself_lets_rank_0_end_the_trial(outcome: Outcome, found: tuple[Outcome, str]) -> None:
    side = begun()
    stopped = RankFailed(side.lease, "x is bad", "", has_stopped=True)
    assert side.gangs.end_of(SECOND, stopped, side.state.attempt(side.lease)) is None
    assert side.told() == [(0, StopTraining)]
    end = side.gangs.end_by_rank(TrainingEnded(side.lease, outcome, UNITS, error="own", error_kind="exit"))
    assert (end.outcome, end.error) == found
    assert side.gangs.end_by_rank(end) == end, "it was told once"


@pytest.mark.parametrize("sender", [FIRST, (WorkerId(1), 2), (WorkerId(2), 1)], ids=["rank 0", "later", "stranger"])
def test_rank_0_and_strangers_cannot_fail_a_training_as_another_rank(sender: tuple[WorkerId, int]) -> None:
    side = begun()
    assert side.gangs.end_of(sender, RankFailed(side.lease, "x", ""), side.state.attempt(side.lease)) is None


@pytest.mark.parametrize(("lost", "left"), [(0, 1), (1, 0)])
def test_where_a_rank_is_lost_the_one_that_is_left_is_ended_at_once(lost: int, left: int) -> None:
    side = begun()
    side.tell(WorkerLost(WorkerId(lost), 1, "killed"))
    assert side.told() == [(left, Refused)]


def test_a_rank_lost_before_its_work_is_durable_leaves_nobody_waiting() -> None:
    side = Side()
    decided = side.last
    side.tell(WorkerLost(WorkerId(1), 1, "killed"))
    assert side.told() == []
    side.give(decided)
    assert side.told() == [(0, Refused)]


def test_a_ranks_log_lines_keep_their_place_as_gangs_come_and_go() -> None:
    side = Side(workers=4)
    for _ in range(40):
        side.end(lease=lease_of(side.last))
        side.give()
    found = side.gangs.log_of(side.lease, SECOND)
    assert found is not None
    assert (found[0], found[1].trial, found[1].start) == (1, 0, 0)


def test_last_lines_of_a_rank_may_follow_its_end_and_are_forgotten_at_last() -> None:
    side = begun()
    side.end()
    for _ in range(15):
        side.give()
        side.end(lease=lease_of(side.last))
    assert side.gangs.log_of(side.lease, SECOND) is not None
    assert side.gangs.log_of(side.lease, FIRST) is None, "rank 0 has lines of its own"
    for _ in range(40):
        side.give()
        side.end(lease=lease_of(side.last))
    assert side.gangs.log_of(side.lease, SECOND) is None


def test_an_attachment_and_a_loss_at_once_leave_no_rank_waiting(
    tmp_path: Path,
) -> None:
    state, store = make_state(FIFO(max_resource=UNITS)), open_store(tmp_path / "study")
    state.gang = Gang(2)
    store.prepare()
    harness = Harness(store, state)
    harness.driver.post(DriverStarted("test"))
    harness.driver.post(RunRequested(9, 2))
    for worker in FIRST, SECOND:
        assert harness.launched.get(timeout=PATIENCE_S) == worker

    def at_once() -> None:
        for worker in FIRST, SECOND:
            harness.driver.attached(Hello(*worker, "agent"), "peer")
        harness.driver._take(WorkerLost(*SECOND, "killed"))

    harness.on_loop(at_once)
    lease = harness.wire.next(Assign).work.lease
    assert harness.wire.next(Refused).lease == lease
    harness.driver.close()
