"""Which workers train a trial together, and in which order of ranks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from asyncsearch.engine.sizing.gangs import is_waiting_in_vain, members
from asyncsearch.events import DriverStarted, RunRequested, WorkerAttached, WorkerLost
from asyncsearch.ids import WorkerId
from asyncsearch.schedulers import FIFO
from asyncsearch.sizing.gangs import Gang
from tests.engine.player import Player
from tests.engine.tools import make_state


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
