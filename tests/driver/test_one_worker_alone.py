"""What one worker says, or leaves undone, concerns that worker: it holds no run open and ends none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.driver.incoming import TrueSizes, stored_bytes
from asyncsearch.driver.store_waits import JOURNAL
from asyncsearch.engine.state import StudyState
from asyncsearch.events import CheckpointCommitted, Outcome, StopRequested, TrainingEnded, WorkerLost
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, WorkerId
from asyncsearch.schedulers import FIFO
from asyncsearch.store import open_store
from tests.driver.test_timeouts import Watched
from tests.engine.player import Player
from tests.engine.tools import PackPlayer, make_state

W0, W1 = (WorkerId(0), 1), (WorkerId(1), 1)


def searching(workers: int = 2) -> Player:
    player = Player(make_state(FIFO(max_resource=9)))
    player.begin(4, workers)
    return player


def pass_time(watched: Watched, until: float) -> None:
    """Let time pass while all workers give signs of life."""
    while watched.loop.now < until:
        for worker in (W0, W1):
            watched.timeouts.seen(worker)
        watched.loop.go_to(watched.loop.now + 5.0)


def test_a_worker_that_lives_and_never_stops_is_lost() -> None:
    player = searching()
    watched = Watched(player.state)
    lease = player.state.attempts[0].lease
    player.tell(StopRequested("Ctrl-C"))
    watched.timeouts.begin_stop(lease)
    pass_time(watched, 100.0)
    assert watched.events == [WorkerLost(lease.worker, lease.epoch, "it did not stop within 60 s")]


def test_one_that_has_stopped_in_time_or_may_have_said_so_is_not() -> None:
    player = searching()
    ended, unread = Watched(player.state), Watched(player.state)
    lease = player.state.attempts[0].lease
    player.tell(StopRequested("Ctrl-C"))
    for watched in (ended, unread):
        watched.timeouts.begin_stop(lease)
    unread.timeouts.note_outage(JOURNAL, "no space left")
    pass_time(unread, 100.0)
    assert unread.events == [], "its messages wait for the journal"
    player.tell(TrainingEnded(lease, Outcome.STOPPED, 0))
    ended.timeouts.end_stop(lease)
    pass_time(ended, 100.0)
    assert ended.events == []


def test_a_lane_of_a_pack_may_take_its_time_while_others_train() -> None:
    player = PackPlayer()
    watched = Watched(player.state)
    player.state.attempts[0].is_stop_sent = True
    watched.timeouts.begin_stop(player.lease)
    pass_time(watched, 100.0)
    assert watched.events == []
    watched.timeouts.begin_stop(player.lease, is_refused=True)
    pass_time(watched, 200.0)
    assert len(watched.events) == 1, "a lease that was refused has no lane that trains on"


@pytest.mark.parametrize(
    ("waiting", "ends_run"), [([W0], False), ([W0, W1], True), ([JOURNAL], True), ([W0, JOURNAL], True)]
)
def test_a_store_is_at_fault_if_two_workers_or_the_driver_cannot_use_it(waiting: list[Any], ends_run: bool) -> None:
    watched = Watched(searching().state)
    for key in waiting:
        watched.timeouts.note_outage(key, "no space left")
    pass_time(watched, 610.0)
    kinds = {type(event) for event in watched.events}
    assert kinds >= ({StopRequested} if ends_run else {WorkerLost})
    if not ends_run:
        assert kinds == {WorkerLost}
        (lost,) = watched.events
        assert isinstance(lost, WorkerLost)
        assert (lost.worker, lost.reason) == (0, "the store could not be used for 600 s by it alone: no space left.")


def test_the_only_worker_is_believed() -> None:
    watched = Watched(searching(1).state)
    watched.timeouts.note_outage(W0, "no space left")
    pass_time(watched, 610.0)
    assert any(isinstance(event, StopRequested) for event in watched.events)


@pytest.mark.parametrize(("said", "counted"), [(2**52, 7), (7, 7), (500, 7)])
def test_a_quota_acts_on_no_more_bytes_than_the_store_has(said: int, counted: int, tmp_path: Path) -> None:
    store = open_store(tmp_path / "st")
    store.prepare()
    here = CheckpointRef(NodeKey("a" * 32), 1)
    staged = store.stage(here)
    (staged / "weights").write_bytes(b"7 bytes")
    store.commit(here, staged)
    assert stored_bytes(store, here) == 7
    state: StudyState = make_state(FIFO(max_resource=9), quota_bytes=5)
    sizes = TrueSizes(state, store, 10.0)
    commit = CheckpointCommitted(Lease(0, WorkerId(0), 1), here, said)
    assert sizes.is_to_be_compared(commit)
    compared = asyncio.run(sizes.compared(commit))
    sizes.close()
    assert isinstance(compared, CheckpointCommitted)
    assert compared.size_bytes == counted
    gone = CheckpointCommitted(commit.lease, CheckpointRef(here.node, 2), said)
    again = TrueSizes(state, store, 10.0)
    nothing = asyncio.run(again.compared(gone))
    again.close()
    assert isinstance(nothing, CheckpointCommitted)
    assert nothing.size_bytes == 0, "it is not in the store"


def test_a_commit_within_the_quota_is_not_looked_at(tmp_path: Path) -> None:
    store = open_store(tmp_path / "st")
    commit = CheckpointCommitted(Lease(0, WorkerId(0), 1), CheckpointRef(NodeKey("a" * 32), 1), 100)
    for quota, is_compared in ((None, False), (100, False), (99, True)):
        sizes = TrueSizes(make_state(FIFO(max_resource=9), quota_bytes=quota), store, 10.0)
        assert sizes.is_to_be_compared(commit) is is_compared
        sizes.close()


@pytest.mark.parametrize("other", [W1, JOURNAL])
def test_a_worker_that_blames_the_store_for_long_makes_no_hiccup_the_end(other: Any) -> None:
    watched = Watched(searching().state)
    watched.timeouts.note_outage(W0, "no space left")
    pass_time(watched, 590.0)
    watched.timeouts.note_outage(other, "a hiccup")
    pass_time(watched, 640.0)
    watched.timeouts.note_outage(other, "")
    pass_time(watched, 650.0)
    assert [type(event) for event in watched.events] == [WorkerLost]


@pytest.mark.parametrize("excuse", ["an outage, again and again", "names of others"])
def test_nothing_that_a_worker_says_puts_off_the_time_to_stop(excuse: str) -> None:
    player = searching()
    watched = Watched(player.state)
    lease = player.state.attempts[0].lease
    player.tell(StopRequested("Ctrl-C"))
    watched.timeouts.begin_stop(lease)
    for step in range(1, 100):
        if excuse == "names of others":
            watched.timeouts.begin_stop(lease, is_refused=True)
        elif step % 10 == 0:
            watched.timeouts.note_outage(W0, "")
        else:
            watched.timeouts.note_outage(W0, "no space left")
        pass_time(watched, step * 20.0)
    assert watched.events == [WorkerLost(lease.worker, lease.epoch, "it did not stop within 60 s")]


def test_an_outage_that_comes_and_goes_is_told_once_a_minute() -> None:
    watched = Watched(searching().state)
    for step in range(100):
        watched.timeouts.note_outage(W0, "no space left" if step % 2 == 0 else "")
        pass_time(watched, float(step))
    assert len(watched.notices) <= 4
