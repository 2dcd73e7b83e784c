"""A worker that trains with others is as good as they are: losses count against it only while it is of no use."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from asyncsearch.actions import LaunchWorker
from asyncsearch.engine.pool import SlotState
from asyncsearch.engine.sizing.gangs import is_waiting_in_vain, members
from asyncsearch.events import DriverStarted, RunRequested, WorkerAttached, WorkerLost
from asyncsearch.ids import WorkerId
from asyncsearch.schedulers import FIFO
from asyncsearch.sizing.gangs import Gang
from tests.engine.player import Player, lease_of, only
from tests.engine.tools import make_state

UNITS = 2
TIMES = 6


def gangs_of_two(max_losses: int = 100) -> Player:
    state = make_state(FIFO(max_resource=UNITS), max_relaunches=1, max_losses=max_losses)
    state.gang = Gang(2)
    player = Player(state)
    player.begin(None, 2)
    return player


def lose(player: Player, worker: WorkerId) -> None:
    """Lose a worker, and let the one that is launched in its place attach."""
    player.tell(WorkerLost(worker, player.state.pool.epoch(worker), "its machine was taken"))
    for launched in only(player.last, LaunchWorker):
        player.tell(WorkerAttached(launched.worker, launched.epoch))


@pytest.mark.parametrize("worker", [WorkerId(0), WorkerId(1)], ids=["rank 0", "rank 1"])
def test_a_worker_lost_after_each_trial_is_relaunched_whatever_its_rank(worker: WorkerId) -> None:
    player = gangs_of_two()
    for _ in range(TIMES):
        player.reach(lease_of(player.last), UNITS)
        lose(player, worker)
    assert player.state.pool.slots[worker].state is SlotState.BUSY


@pytest.mark.parametrize("worker", [WorkerId(0), WorkerId(1)], ids=["rank 0", "rank 1"])
def test_a_worker_that_is_only_lost_is_given_up_whatever_its_rank(worker: WorkerId) -> None:
    player = gangs_of_two()
    for _ in range(2):
        lose(player, worker)
    assert player.state.pool.slots[worker].state is SlotState.GONE


@pytest.mark.parametrize("worker", [WorkerId(0), WorkerId(1)], ids=["rank 0", "rank 1"])
def test_a_trial_that_keeps_losing_workers_is_to_blame_not_the_worker(worker: WorkerId) -> None:
    player = gangs_of_two(max_losses=1)
    for _ in range(2 * TIMES):
        lose(player, worker)
    assert player.state.pool.slots[worker].state is SlotState.BUSY


def with_hosts(hosts: Sequence[str], size: int) -> Player:
    """Return a study of larger gangs than there are workers, one on each of these hosts."""
    state = make_state(FIFO(max_resource=3), max_relaunches=0)
    state.gang = Gang(size)
    player = Player(state)
    player.tell(DriverStarted("test"))
    player.tell(RunRequested(9, size))
    for number, host in enumerate(hosts):
        player.tell(WorkerAttached(WorkerId(number), 1, host))
    return player


@pytest.mark.parametrize(
    ("hosts", "leader", "expected"),
    [("aabb", 0, [0, 1, 2]), ("abab", 0, [0, 2, 1]), ("abab", 1, [1, 3, 0]), ("abcd", 3, [3, 0, 1])],
)
def test_workers_of_the_leaders_host_come_first_then_low_numbers(hosts: str, leader: int, expected: list[int]) -> None:
    player = with_hosts(hosts, 5)
    assert [member.worker for member in members(player.state, WorkerId(leader), 3)] == expected


def test_too_few_idle_workers_wait_in_vain_unless_another_starts() -> None:
    player = with_hosts("aa", 3)
    assert not is_waiting_in_vain(player.state), "the third one starts"
    player.tell(WorkerLost(WorkerId(2), 1, "killed"))
    assert player.state.run is None, "the run has ended"
