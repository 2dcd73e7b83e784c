"""Which trainings are packed, and how each strategy chooses among them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.errors import UsageError
from asyncsearch.ids import NodeKey, PathStep, TrialId
from asyncsearch.plan.base_plan import Batch, PlannedStage
from asyncsearch.plan.nodes import ascending
from asyncsearch.plan.search_plan import SearchPlan
from asyncsearch.plan.solo_plan import SoloPlan
from asyncsearch.sizing.pack_strategies import PACK_STRATEGIES, PackCandidate, PackChoice, distances
from asyncsearch.sizing.packing import Packing, group_of, mates
from tests.plan.tools import ask, words


def candidate(trial: int, start: int = 0, stop: int = 4, **params: Any) -> PackCandidate:
    stage = PlannedStage(NodeKey(f"node {trial}"), start, stop, (TrialId(trial),))
    return PackCandidate(Batch(None, (stage,)), params, group_of(params))


def chosen(strategy: str, first: PackCandidate, *others: PackCandidate, count: int = 9, draw: int = 0) -> list[int]:
    """Return the trials that a strategy packs with the first one."""
    batches = mates(Packing(9, strategy), PackChoice(first, others, count, draw))
    return [batch.stages[0].trials[0] for batch in batches]


@pytest.mark.parametrize("strategy", PACK_STRATEGIES)
def test_only_trainings_with_the_same_units_left_are_packed(strategy: str) -> None:
    others = [candidate(1, 0, 4), candidate(2, 0, 9), candidate(3, 2, 4), candidate(4, 0, 4)]
    assert sorted(chosen(strategy, candidate(0, 0, 4), *others)) == [1, 4]


@pytest.mark.parametrize("strategy", PACK_STRATEGIES)
def test_an_evaluation_is_never_packed(strategy: str) -> None:
    assert chosen(strategy, candidate(0, 4, 4), candidate(1, 4, 4)) == []


@pytest.mark.parametrize("strategy", PACK_STRATEGIES)
@given(count=st.integers(0, 8), draw=st.integers(0, 9))
def test_a_strategy_chooses_as_many_as_wanted_each_once_and_repeatably(strategy: str, count: int, draw: int) -> None:
    others = [candidate(number, lr=number / 10, width=8, batch_size=32) for number in range(1, 6)]
    found = chosen(strategy, candidate(0, lr=0.0, width=8, batch_size=32), *others, count=count, draw=draw)
    assert len(found) == len(set(found)) == min(count, 5)
    assert chosen(strategy, candidate(0, lr=0.0, width=8, batch_size=32), *others, count=count, draw=draw) == found


def test_plan_packs_one_group_in_the_order_that_free_workers_would_get() -> None:
    others = [candidate(5, lr=0.3, width=8), candidate(1, lr=0.3, width=9), candidate(2, lr=0.1, width=8)]
    assert chosen("plan", candidate(0, lr=0.2, width=8), *others) == [5, 2]
    assert chosen("plan", candidate(0, lr=0.2, width=8), *others, count=1) == [5]


def test_nearest_counts_places_between_numbers_and_1_per_other_category() -> None:
    first = candidate(0, lr=0.1, kind="a")
    others = [candidate(1, lr=0.2, kind="b"), candidate(2, lr=0.4, kind="a"), candidate(3, lr=0.1, kind="b")]
    # lr has the places 0.1: 0, 0.2: 1, 0.4: 2
    assert distances(first, others) == [2, 2, 1]
    assert chosen("nearest", first, *others, count=2) == [3, 1]


def test_nearest_takes_truth_values_for_categories() -> None:
    assert distances(candidate(0, on=True), [candidate(1, on=False), candidate(2, on=True)]) == [1, 0]


def test_batch_size_packs_what_has_the_same_one_whatever_else_differs() -> None:
    others = [candidate(1, batch_size=64, width=1), candidate(2, batch_size=32, width=2), candidate(3, width=1)]
    assert chosen("batch_size", candidate(0, batch_size=32, width=1), *others) == [2]


def test_random_draws_anew_for_each_lease() -> None:
    others = [candidate(number) for number in range(1, 9)]
    found = {tuple(chosen("random", candidate(0), *others, count=2, draw=draw)) for draw in range(20)}
    assert len(found) > 10


def test_a_group_is_told_by_what_may_decide_the_structure() -> None:
    assert group_of({"lr": 0.1, "width": 8}) == group_of({"width": 8, "lr": 0.2})
    assert group_of({"lr": {"sequence": "values"}}) == group_of({"lr": 0.2})
    for params in ({"width": 8}, {"act": "relu"}, {"on": True}, {"lr": 0.1}):
        assert group_of(params) != group_of({"width": 9})


@pytest.mark.parametrize("limit", [0, -1, 1025, 2.0, True, "8", None])
def test_a_limit_that_is_no_number_of_trainings_is_refused(limit: Any) -> None:
    with pytest.raises(UsageError, match=r"is not a number of trainings: write an integer from 1"):
        Packing(limit)


def test_a_strategy_that_is_not_known_is_refused() -> None:
    with pytest.raises(UsageError, match="pack_opt='best' is not known: write one of 'plan', 'nearest'"):
        Packing(2, "best")


@given(st.lists(st.integers(0, 20)))
def test_a_heap_is_read_in_order_and_stays_as_it_is(numbers: list[int]) -> None:
    heap = [(number,) for number in sorted(numbers)]
    before = list(heap)
    assert list(ascending(heap)) == sorted(before)
    assert heap == before


def test_ready_batches_are_those_that_workers_would_get_one_after_another() -> None:
    plan = SearchPlan()
    for trial, steps in enumerate(("0a", "0b/3c", "0b/3d", "0e", "0f")):
        ask(plan, trial, steps, 6, is_urgent=trial == 4)
    ready = plan.ready_batches(9)
    assert [words(batch) for batch in plan.ready_batches(2)] == [words(batch) for batch in ready[:2]]
    found = []
    for lease in range(len(ready)):
        batch = plan.next_batch()
        found.append(words(batch))
        assert batch is not None
        plan.begin(lease, batch)
    assert [words(batch) for batch in ready] == found
    assert plan.next_batch() is None


def test_plan_orders_by_measured_cost_where_trials_share_stages() -> None:
    plan = SearchPlan()
    for trial, node in enumerate("abc"):
        ask(plan, trial, f"0{node}", 4)
    for node, seconds in (("0a", 1.0), ("0b", 3.0), ("0c", 2.0)):
        plan.set_cost(NodeKey(node), seconds)
    first, *others = [PackCandidate(batch, {}, "") for batch in plan.ready_batches(9)]
    assert first.trial == 1
    assert chosen("plan", first, *others) == [2, 0]


def test_ready_batches_have_no_stage_in_common_so_that_all_can_begin() -> None:
    plan = SearchPlan()
    for trial, steps in enumerate(("0a", "0b/3c", "0b/3d", "0e", "0f")):
        ask(plan, trial, steps, 6)
    for lease, batch in enumerate(plan.ready_batches(9)):
        plan.begin(lease, batch)
    assert plan.ready_batches(9) == []


def test_ready_batches_of_trials_that_share_nothing_come_in_their_order() -> None:
    plan = SoloPlan()
    for trial in (3, 1, 2):
        plan.request(TrialId(trial), (PathStep(0, NodeKey(f"n{trial}")),), 4, is_urgent=trial == 2)
    assert [batch.stages[0].trials for batch in plan.ready_batches(9)] == [(2,), (1,), (3,)]
    assert [batch.stages[0].trials for batch in plan.ready_batches(1)] == [(2,)]
    for lease, batch in enumerate(plan.ready_batches(2)):
        plan.begin(lease, batch)
    assert [batch.stages[0].trials for batch in plan.ready_batches(9)] == [(3,)]
