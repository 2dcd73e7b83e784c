"""A decision costs as much in a large plan as in a small one, and what is over takes no memory."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsearch.ids import NodeKey, PathStep, TrialId
from asyncsearch.plan.nodes import Point
from asyncsearch.plan.search_plan import SearchPlan
from asyncsearch.trial import UNBOUNDED
from tests.plan.tools import begin, check, facts_of, ref

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def touches(monkeypatch: pytest.MonkeyPatch) -> list[Point]:
    """The points whose place in the tree was looked at anew."""
    touched: list[Point] = []
    merit = Point._merit

    def counted(point: Point) -> tuple[tuple[int, int, int], bool]:
        touched.append(point)
        return merit(point)

    monkeypatch.setattr(Point, "_merit", counted)
    return touched


def one_node(number: int) -> tuple[PathStep, ...]:
    return (PathStep(0, NodeKey(f"root-{number}")),)


def one_branch(number: int) -> tuple[PathStep, ...]:
    return (PathStep(0, NodeKey("root")), PathStep(4, NodeKey(f"child-{number}")))


@pytest.mark.parametrize("shape", [one_node, one_branch])
def test_an_operation_touches_as_few_points_of_a_large_plan_as_of_a_small(
    shape: Callable[[int], tuple[PathStep, ...]], touches: list[Point]
) -> None:
    def most_touched(size: int) -> int:
        plan = SearchPlan()
        most = 0

        def did() -> None:
            nonlocal most
            most = max(most, len(touches))
            touches.clear()

        for number in range(size):
            plan.request(TrialId(number), shape(number), 10 + number % 7)
            did()
        for lease in range(20):
            batch = begin(plan, lease)
            did()
            for stage in batch.stages:
                plan.add_checkpoint(ref(stage.node, stage.stop))
                did()
            plan.set_cost(batch.stages[-1].node, 1.0)
            did()
            plan.end(lease)
            did()
            plan.withdraw(batch.stages[-1].trials[0])
            did()
            plan.withdraw(TrialId(size - lease - 1))
            did()
        return most

    assert most_touched(3_000) == most_touched(100) <= 4


@pytest.mark.parametrize("shape", [one_node, one_branch])
def test_trials_that_are_over_leave_nothing(shape: Callable[[int], tuple[PathStep, ...]]) -> None:
    plan = SearchPlan()

    def come_and_go(first: int) -> None:
        for number in range(first, first + 2_000):
            plan.request(TrialId(number), shape(number), UNBOUNDED)
        begin(plan, first)
        for number in range(first, first + 2_000):
            plan.withdraw(TrialId(number))
        plan.end(first)

    come_and_go(0)
    assert not facts_of(plan).nodes
    gc.collect()
    tracemalloc.start()
    for first in range(10_000, 50_000, 10_000):
        come_and_go(first)
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 200_000, "tables for 2,000 trials at once, nothing of each of the 8,000"


def shared_path(number: int) -> tuple[PathStep, ...]:
    """Return a path of nodes that all, nine, three and one of the trials go through, with keys as long as real ones."""
    names = ["", f"{number // 9}", f"{number // 3}", f"{number}"]
    return tuple(
        PathStep(start, NodeKey(f"{start}/{name:>30}")) for start, name in zip((0, 2, 4, 6), names, strict=True)
    )


def test_a_node_of_a_large_plan_takes_2_kb_at_most() -> None:
    plan = SearchPlan()
    gc.collect()
    tracemalloc.start()
    for number in range(3_000):
        plan.request(TrialId(number), shared_path(number), 10)
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept / len(facts_of(plan).nodes) < 2048


def test_a_path_of_10_000_nodes_is_no_deeper_than_python_can_go() -> None:
    plan = SearchPlan()
    steps = tuple(PathStep(start, NodeKey(f"{start}")) for start in range(10_000))
    plan.request(TrialId(0), steps, 10_000)
    plan.request(TrialId(1), steps[:5_000], 5_000)
    plan.set_cost(NodeKey("0"), 2.0)
    batch = begin(plan, 1)
    assert [len(stage.trials) for stage in batch.stages] == [2] * 5_000 + [1] * 5_000
    for stage in batch.stages[:20]:
        plan.add_checkpoint(ref(stage.node, stage.stop))
    plan.cut(1, 9_000)
    plan.end(1)
    assert len(check(plan)) == 9_980
    plan.withdraw(TrialId(0))
    assert len(check(plan)) == 4_980
    plan.withdraw(TrialId(1))
    assert not facts_of(plan).nodes


SEARCH = """
from tests.plan.tools import ask, begin, ref, words
from asyncsearch.plan.search_plan import SearchPlan

plan = SearchPlan()
for trial in range(60):
    ask(plan, trial, f"0{'abc'[trial % 3]}/3{'abcdef'[trial % 6]}/7{'ab'[trial % 2]}", 14 + trial % 9)
    if trial % 5 == 0:
        batch = begin(plan, trial)
        print(words(batch), [stage.trials for stage in batch.stages])
        plan.add_checkpoint(ref(batch.stages[0].node, batch.stages[0].stop))
        plan.end(trial)
"""


def test_the_same_operations_give_the_same_batches_whatever_the_hashes_are() -> None:
    def search(seed: str) -> str:
        env = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [sys.executable, "-c", SEARCH], env=env, check=True, capture_output=True, text=True
        ).stdout

    found = search("1")
    assert len(found.splitlines()) == 12
    assert search("2") == found
