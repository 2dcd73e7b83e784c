"""How long a launch waits for a slot: as long as something of its run works, or the cluster may bring more."""

from __future__ import annotations

from typing import Any

import pytest

from asyncsearch.ids import WorkerId
from asyncsearch.launch.spark.slots import SlotWait, SlotWatch, wait_on

TIMEOUT_S = 600.0
FIRST: dict[str, Any] = {"is_replacement": False, "is_shown": False, "has_others": False, "is_elastic": False}


def wait(waited_s: float, **facts: bool) -> SlotWait:
    return wait_on("worker-1", waited_s, TIMEOUT_S, **(FIRST | facts))


def test_a_first_launch_says_its_wait_and_is_given_up_where_nothing_works() -> None:
    sentence = "worker-1 waits for a free task slot: other jobs hold them, or executors are missing."
    assert wait(10.0) == SlotWait(TIMEOUT_S, sentence)
    assert wait(TIMEOUT_S, is_shown=True).reason == "it found no free task slot within 600 s"


def test_where_slots_are_not_told_a_wait_names_the_number_of_workers() -> None:
    found = wait(10.0, has_others=True, tells_slots=False)
    assert "executors are missing, or parallelism= is above the number of slots. It waits on, and" in found.sentence


@pytest.mark.parametrize("hope", ["has_others", "is_elastic"])
def test_a_launch_is_kept_while_others_work_or_the_cluster_may_grow(hope: str) -> None:
    for waited_s in (TIMEOUT_S, 10 * TIMEOUT_S):
        found = wait(waited_s, is_shown=True, **{hope: True})
        assert not found.reason
        assert found.next_s == waited_s + TIMEOUT_S, "people are reminded now and then"
        assert f"since {waited_s:.0f} s: other jobs hold them, or executors are missing. It waits " in found.sentence


def test_a_replacement_says_for_how_long_it_was_to_be_replaced() -> None:
    sentence = wait(60.0, is_replacement=True, has_others=True).sentence
    assert sentence == (
        "worker-1 waits for a free task slot since 60 s: other jobs hold them, or no executor has come for the one "
        "that was lost. It waits on, and the other workers train meanwhile."
    )


def test_what_people_know_is_not_repeated_before_the_timeout() -> None:
    assert wait(30.0, is_shown=True) == SlotWait(TIMEOUT_S)


@pytest.mark.parametrize("brings_executors", [True, False])
def test_a_run_that_had_a_slot_waits_for_the_next_where_executors_come(*, brings_executors: bool) -> None:
    running = {"first"}
    watch = SlotWatch(lambda: running, TIMEOUT_S, brings_executors=brings_executors)
    assert not watch.began(WorkerId(0), "first")
    assert watch.refresh(["first"], 0.0) is None
    assert watch.look("first", "worker-0 epoch 1", 10.0, []) is None
    running.clear()
    assert watch.began(WorkerId(0), "second"), "it replaces the first"
    assert watch.refresh(["second"], TIMEOUT_S) is None
    wait = watch.look("second", "worker-0 epoch 2", TIMEOUT_S, [])
    assert wait is not None
    assert bool(wait.reason) != brings_executors


def test_a_run_that_never_had_a_slot_is_given_up_even_where_executors_come() -> None:
    watch = SlotWatch(set, TIMEOUT_S, brings_executors=True)
    watch.began(WorkerId(0), "first")
    wait = watch.look("first", "worker-0 epoch 1", TIMEOUT_S, ["second"])
    assert wait is not None
    assert wait.reason == "it found no free task slot within 600 s"


def test_launches_that_come_one_after_the_other_are_looked_at_together() -> None:
    looks = 0

    def running() -> set[str]:
        nonlocal looks
        looks += 1
        return {"first"}

    watch = SlotWatch(running, TIMEOUT_S, brings_executors=False)
    assert watch.refresh(["first", "second"], 10.0) is None
    assert watch.refresh(["first"], 10.1) is None, "it is known to have its slot"
    assert watch.refresh(["third"], 10.1) == 12.0, "the next look is for all that come until then"
    assert looks == 1
    assert watch.refresh(["second", "third"], 12.0) is None
    assert looks == 2


def test_where_spark_cannot_tell_launches_count_as_having_their_slots() -> None:
    watch = SlotWatch(lambda: None, TIMEOUT_S, brings_executors=False)
    assert watch.refresh(["first"], 10.0) is None
    assert watch.look("first", "worker-0 epoch 1", TIMEOUT_S, []) is None
