"""A worker that lives and does not keep what its ends promise is lost; a store that is slow is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.driver.promises import Promises, written_bytes
from asyncsearch.driver.settings import DriverSettings
from asyncsearch.driver.store_waits import JOURNAL, StoreWaits
from asyncsearch.engine.attempts import Attempt
from asyncsearch.events import (
    AnyEvent,
    CheckpointCommitted,
    CheckpointFailed,
    Outcome,
    StopRequested,
    TrainingEnded,
    WorkerLost,
)
from asyncsearch.ids import CheckpointRef, Lease, WorkerId
from asyncsearch.schedulers import FIFO
from asyncsearch.store import layout, open_store
from tests.driver.test_timeouts import Loop
from tests.engine.player import Player
from tests.engine.tools import PackPlayer, make_state

W0, W1 = (WorkerId(0), 1), (WorkerId(1), 1)
TIMEOUT_S = 600.0


class AtOnce(Loop):
    """A loop without threads and tasks: what is given to it is done at once."""

    def create_task(self, coroutine: Any) -> None:
        asyncio.run(coroutine)

    async def run_in_executor(self, _thread: object, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)


class Watched:
    """A search whose player and promises get the same events."""

    def __init__(self, folder: Path, workers: int = 2, player: Player | None = None) -> None:
        self.player = player or Player(make_state(FIFO(max_resource=9)))
        if player is None:
            self.player.begin(40, workers)
        self.posted: list[AnyEvent] = []
        self.loop = AtOnce()
        self.waits = StoreWaits("store", TIMEOUT_S)
        self.store = open_store(folder / "study")
        self.store.prepare()
        loop: Any = self.loop
        settings = DriverSettings(store_timeout_s=TIMEOUT_S)
        self.promises = Promises(self.player.state, self.store, self.waits, settings, loop, post=self.posted.append)

    def tell(self, event: AnyEvent) -> None:
        self.promises.before(event)
        self.player.tell(event)

    def attempt(self, worker: int = 0) -> Attempt:
        attempts = self.player.state.attempts.values()
        return next(one for one in attempts if one.lease.worker == worker and one.end is None)

    def end(self, worker: int = 0, outcome: Outcome = Outcome.RETURNED) -> tuple[Lease, CheckpointRef]:
        """Let a worker end what it trains, and name a checkpoint."""
        attempt = self.attempt(worker)
        self.tell(TrainingEnded(attempt.lease, outcome, 9, 9))
        return attempt.lease, CheckpointRef(attempt.node_at(9), 9)

    def write(self, checkpoint: CheckpointRef, size_bytes: int) -> None:
        """Write so much of a checkpoint, which is not complete."""
        name = f"{layout.node_folder(checkpoint)}/{layout.Version(checkpoint.resource)}/{layout.FILES}/model"
        self.store.write(name, bytes(size_bytes))

    def pass_time(self, seconds: float, each: Callable[[int], None] = lambda step: None) -> None:
        """Let time pass in steps that no driver is late for."""
        for step in range(int(seconds / 100.0)):
            each(step)
            self.loop.go_to(self.loop.now + 100.0)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_a_checkpoint_that_never_comes_costs_its_worker_alone(watched: Watched) -> None:
    lease, _ = watched.end()
    watched.pass_time(500.0)
    assert watched.posted == []
    watched.pass_time(500.0)
    (lost,) = watched.posted
    assert lost == WorkerLost(*W0, "it stored nothing of its checkpoint at 9 for 600 s")
    watched.tell(lost)
    state = watched.player.state
    assert state.attempt(lease) is None
    assert state.run is not None
    assert state.trials[0].losses == 1


def test_a_worker_that_blames_the_store_again_and_again_is_lost(watched: Watched) -> None:
    watched.end()

    def blame(step: int) -> None:
        watched.waits.ended(W0, watched.loop.now)
        watched.waits.began(W0, "no space left", watched.loop.now)

    watched.pass_time(5000.0, blame)
    assert watched.posted == [WorkerLost(*W0, "it stored nothing of its checkpoint at 9 for 600 s")]


@pytest.mark.parametrize("kind", ["written", "journal", "worker", "earlier upload"])
def test_a_slow_store_is_waited_for(watched: Watched, kind: str) -> None:
    _, checkpoint = watched.end()

    def get_on(step: int) -> None:
        if kind == "written":
            watched.write(checkpoint, step + 1)
        elif kind == "earlier upload":
            attempt = watched.attempt()
            watched.tell(CheckpointCommitted(attempt.lease, CheckpointRef(attempt.node_at(step + 1), step + 1), 1))
        else:
            watched.waits.began(JOURNAL if kind == "journal" else W0, "no space left", watched.loop.now)

    watched.pass_time({"earlier upload": 800.0, "worker": 500.0}.get(kind, 5000.0), get_on)
    assert watched.posted == []
    watched.waits.ended(JOURNAL, watched.loop.now)
    watched.waits.ended(W0, watched.loop.now)
    watched.pass_time(300.0)
    assert watched.posted == [], "it has its whole time again"
    watched.pass_time(1000.0)
    assert [type(event) for event in watched.posted][:1] == [WorkerLost], "it stands still"


def test_what_is_written_of_other_checkpoints_is_no_progress_of_this_one(watched: Watched) -> None:
    _, checkpoint = watched.end()
    other = CheckpointRef(checkpoint.node, 8)
    watched.pass_time(1000.0, lambda step: watched.write(other, step + 1))
    assert len(watched.posted) >= 1


def test_a_driver_that_stood_still_reads_first_what_came_meanwhile(watched: Watched) -> None:
    watched.end()
    watched.pass_time(300.0)
    watched.loop.go_to(9000.0)
    assert watched.posted == []


@pytest.mark.parametrize("kind", ["committed", "failed"])
def test_a_promise_that_was_kept_in_time_costs_nothing(watched: Watched, kind: str) -> None:
    lease, checkpoint = watched.end()
    if kind == "committed":
        watched.tell(CheckpointCommitted(lease, checkpoint, 1))
    else:
        watched.tell(CheckpointFailed(lease, checkpoint, "PicklingError"))
    watched.pass_time(3000.0)
    assert watched.posted == []


def test_a_store_that_cannot_be_looked_at_shows_no_progress(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    watched.end()

    def refuse(folder: str) -> None:
        raise OSError("it does not answer")

    monkeypatch.setattr(watched.store, "walk", refuse)
    watched.pass_time(1000.0)
    assert len(watched.posted) >= 1


def gives_back(watched: Watched, worker: int, kind: str) -> None:
    if kind == "store":
        lease, checkpoint = watched.end(worker)
        watched.tell(CheckpointFailed(lease, checkpoint, "no space left", error_kind="store"))
    else:
        watched.tell(TrainingEnded(watched.attempt(worker).lease, Outcome.STOPPED, 0))


@pytest.mark.parametrize("kind", ["store", "stopped"])
def test_a_worker_that_returns_all_its_work_is_lost_and_others_continue(watched: Watched, kind: str) -> None:
    for _ in range(4):
        assert watched.posted == []
        gives_back(watched, 0, kind)
    (lost,) = watched.posted
    assert isinstance(lost, WorkerLost)
    assert lost.worker == 0
    assert "4 times in a row" in lost.reason
    watched.tell(lost)
    assert watched.player.state.run is not None
    assert not watched.player.state.stopping


@pytest.mark.parametrize("workers", [1, 2])
def test_a_store_that_all_workers_find_useless_ends_the_run(tmp_path: Path, workers: int) -> None:
    watched = Watched(tmp_path, workers)
    for _ in range(4):
        for worker in range(workers):
            gives_back(watched, worker, "store")
    assert [type(event) for event in watched.posted] == [WorkerLost] * (workers - 1) + [StopRequested]
    assert isinstance(stop := watched.posted[-1], StopRequested)
    assert stop.error_kind == "StoreError"
    assert "no space left" in stop.reason


@pytest.mark.parametrize("kind", ["store", "stopped"])
def test_a_worker_that_gets_work_done_in_between_is_not(watched: Watched, kind: str) -> None:
    for number in range(12):
        gives_back(watched, 0, kind)
        if number % 3 == 2:
            lease, checkpoint = watched.end()
            watched.tell(CheckpointCommitted(lease, checkpoint, 1))
    assert watched.posted == []


def test_those_that_were_told_to_stop_may_stop(watched: Watched) -> None:
    for _ in range(12):
        watched.attempt().is_stop_sent = True
        gives_back(watched, 0, "stopped")
    assert watched.posted == []


def test_the_lanes_of_a_pack_count_once(tmp_path: Path) -> None:
    player = PackPlayer(40, joins=False)
    watched = Watched(tmp_path, player=player)
    for _ in range(4):
        assert watched.posted == []
        lease = watched.attempt().lease
        for attempt in list(player.state.attempts_under(lease)):
            watched.tell(TrainingEnded(lease, Outcome.STOPPED, 0, lane=attempt.lane))
    assert len(watched.posted) == 1


def test_what_is_written_of_a_checkpoint_is_seen_before_it_is_complete(watched: Watched) -> None:
    _, checkpoint = watched.end()
    assert written_bytes(watched.store, checkpoint) == 0
    watched.write(checkpoint, 7)
    assert written_bytes(watched.store, checkpoint) == 7
