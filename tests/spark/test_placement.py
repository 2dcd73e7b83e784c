"""Which executor each worker is to run on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from asyncsearch.launch.spark.placement import Emptiest, Executor, executors, running_tasks
from tests.spark.jvm import SLOTS, Jvm


class Cluster:
    """Executors, of which a look counts the tasks, and a clock."""

    def __init__(self, *slots: int) -> None:
        self.busy = {Executor(str(number), f"host-{number}", count): 0 for number, count in enumerate(slots)}
        self.looks = 0
        self.now = 0.0

    def look(self) -> Sequence[tuple[Executor, int]]:
        self.looks += 1
        return list(self.busy.items())

    def emptiest(self) -> Emptiest:
        return Emptiest(self.look, lambda: self.now)


def chosen(emptiest: Emptiest, launches: int) -> Counter[str]:
    return Counter(emptiest.choose() for _ in range(launches))


@pytest.mark.parametrize("launches", [2, 50, 100, 200])
def test_launches_that_come_together_spread_evenly_by_one_look(launches: int) -> None:
    cluster = Cluster(launches, launches)
    assert set(chosen(cluster.emptiest(), launches).values()) == {launches // 2}
    assert cluster.looks == 1


def test_each_executor_gets_the_same_share_of_its_slots() -> None:
    assert chosen(Cluster(2, 16).emptiest(), 9) == {"executor_host-0_0": 1, "executor_host-1_1": 8}


def test_tasks_of_others_count_and_no_full_executor_is_chosen() -> None:
    cluster = Cluster(4, 4)
    first, second = cluster.busy
    cluster.busy[first] = 4
    assert chosen(cluster.emptiest(), 5) == {second.place: 4, "": 1}


def test_later_executors_are_seen_once_launches_settled_or_found_none() -> None:
    cluster = Cluster(2)
    emptiest = cluster.emptiest()
    assert chosen(emptiest, 2) == {"executor_host-0_0": 2}
    later = Executor("7", "host-7", 2)
    cluster.busy = {**dict.fromkeys(cluster.busy, 2), later: 0}
    cluster.now = 1.0
    assert emptiest.choose() == later.place
    cluster.busy[later] = 2
    cluster.now = 10.0
    assert emptiest.choose() == ""


def test_a_launch_that_finds_no_slot_asks_spark_once_a_second() -> None:
    cluster = Cluster()
    assert chosen(cluster.emptiest(), 100) == {"": 100}
    assert cluster.looks == 1


def test_a_local_session_has_nothing_to_choose() -> None:
    assert Executor("driver", "here", 4).place == ""


def test_executors_and_their_tasks_are_read_by_some_calls_for_each() -> None:
    names = [str(number) for number in range(50)]
    jvm = Jvm([("", [("3", True), ("3", True), ("4", False)])], names, set())
    assert executors(jvm.context) == [Executor(name, "host", SLOTS) for name in names]
    assert running_tasks(jvm.context) == {**dict.fromkeys(names, 0), "3": 2}
    assert jvm.calls <= 12 + 4 * len(names)
