"""The search plan: what is shared, what waits, what is chosen. Traps are those of notes/stages.md, 2.2 and 2.4."""

from __future__ import annotations

import math

import pytest

from asyncsearch.errors import InternalError
from asyncsearch.ids import NodeKey, PathStep, TrialId
from asyncsearch.plan.nodes import HELD_WORTH
from asyncsearch.plan.search_plan import SearchPlan
from asyncsearch.trial import UNBOUNDED
from tests.plan.tools import ask, begin, check, facts_of, path, ref, stages_of, tree, words


@pytest.fixture
def plan() -> SearchPlan:
    return SearchPlan()


class TestTrapsOfAlgorithm1:
    def test_a_roots_own_checkpoints_are_looked_for(self, plan: SearchPlan) -> None:
        plan.add_checkpoint(ref("0a", 4))
        ask(plan, 0, "0a", 10)
        assert words(plan.next_batch()) == ["0a@4", "0a 4-10"]
        check(plan)

    def test_b_what_runs_and_what_begins_afresh_are_two_answers(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a", 10)
        begin(plan, 1)
        ask(plan, 1, "0a", 20)
        ask(plan, 2, "0b", 10)
        assert tree(plan) == ["0b 0-10 fresh", "0a 10-20 running"]
        assert words(plan.next_batch()) == ["fresh", "0b 0-10"]
        check(plan)

    def test_c_a_checkpoint_answers_though_its_node_is_running(self, plan: SearchPlan) -> None:
        plan.add_checkpoint(ref("0a", 5))
        ask(plan, 0, "0a", 10)
        begin(plan, 1)
        ask(plan, 1, "0a/5b", 8)
        assert words(plan.next_batch()) == ["0a@5", "0a/5b 5-8"]
        check(plan)

    def test_c_what_runs_is_an_interval_not_a_node(self, plan: SearchPlan) -> None:
        plan.add_checkpoint(ref("0a", 10))
        ask(plan, 0, "0a", 20)
        begin(plan, 1)
        ask(plan, 1, "0a", 4)
        ask(plan, 2, "0a", 15)
        ask(plan, 3, "0a", 25)
        assert tree(plan) == ["0a 0-4 fresh", "0a 20-25 running"]
        assert plan.splits(1) == [("0a", 15)]
        check(plan)

    def test_d_targets_of_one_node_are_a_chain(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a", 25)
        ask(plan, 1, "0a", 15)
        ask(plan, 2, "0a/20b", 30)
        assert tree(plan) == ["0a 0-15 fresh", "0a 15-20 stage", "0a 20-25 stage", "0a/20b 20-30 stage"]
        check(plan)

    def test_e_the_nearest_checkpoint_is_taken_and_lost_ones_are_not(self, plan: SearchPlan) -> None:
        for resource in range(1, 1_000):
            plan.add_checkpoint(ref("0a", resource))
        ask(plan, 0, "0a", 2_000)
        assert words(plan.next_batch()) == ["0a@999", "0a 999-2000"]
        plan.remove_checkpoint(ref("0a", 999))
        assert words(plan.next_batch()) == ["0a@998", "0a 998-2000"]
        check(plan)

    def test_f_what_is_durable_is_not_trained_again(self, plan: SearchPlan) -> None:
        plan.add_checkpoint(ref("0a", 10))
        ask(plan, 0, "0a", 10)
        assert plan.next_batch() is None
        assert plan.target_of(TrialId(0)) == 10
        assert plan.nearest(path("0a"), 10) == ref("0a", 10)
        check(plan)


class TestTrap8SplitsOfWhatRuns:
    def test_a_split_inside_what_runs_waits_for_it(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a", 10)
        begin(plan, 1)
        ask(plan, 1, "0a/4b", 10)
        assert plan.splits(1) == [("0a", 4)]
        assert plan.next_batch() is None
        plan.add_save_point(1, NodeKey("0a"), 4)
        assert plan.splits(1) == []
        plan.add_checkpoint(ref("0a", 4))
        assert words(plan.next_batch()) == ["0a@4", "0a/4b 4-10"]
        check(plan)

    def test_a_split_that_was_passed_is_trained_again_from_below(self, plan: SearchPlan) -> None:
        plan.add_checkpoint(ref("0a", 2))
        ask(plan, 0, "0a", 6)
        ask(plan, 1, "0a", 10)
        begin(plan, 1)
        ask(plan, 2, "0a/4b", 10)
        plan.add_checkpoint(ref("0a", 6))
        assert words(plan.next_batch()) == ["0a@2", "0a 2-4", "0a/4b 4-10"]
        check(plan)

    def test_a_split_of_a_stage_not_begun_yet_is_told_too(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a/4b", 10)
        ask(plan, 1, "0a/4c", 5)
        begin(plan, 1)
        ask(plan, 2, "0a/4b/7b", 9)
        ask(plan, 3, "0a", 2)
        assert plan.splits(1) == [("0a", 2), ("0a/4b", 7)]

    def test_a_checkpoint_that_could_not_be_stored_is_passed_by_the_next_one(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a/4b/6b", 10)
        ask(plan, 1, "0a/4b/6c", 7)
        ask(plan, 2, "0a/4c", 5)
        begin(plan, 1)
        plan.add_checkpoint(ref("0a/4b", 6))
        assert [span.node for span in facts_of(plan).running] == ["0a/4b/6b"]
        assert tree(plan) == ["0a 0-4 fresh", "0a/4c 4-5 stage", "0a/4b/6c 6-7 saved"]
        check(plan)

    def test_a_batch_that_ends_early_is_done_again_from_what_it_saved(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a", 6)
        ask(plan, 1, "0a/6b", 10)
        begin(plan, 1)
        plan.add_checkpoint(ref("0a", 6))
        plan.end(1)
        assert words(plan.next_batch()) == ["0a@6", "0a/6b 6-10"]
        check(plan)


class TestTrap9Withdrawal:
    def test_a_stage_lives_while_anybody_needs_it(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a/4b", 10)
        ask(plan, 1, "0a/4c", 10)
        plan.withdraw(TrialId(0))
        assert tree(plan) == ["0a 0-4 fresh", "0a/4c 4-10 stage"]
        plan.withdraw(TrialId(1))
        assert tree(plan) == []
        check(plan)

    def test_a_running_batch_is_wanted_up_to_its_last_request(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a/4b", 10)
        ask(plan, 1, "0a", 3)
        begin(plan, 1)
        assert plan.wanted_stop(1) == 10
        plan.withdraw(TrialId(0))
        assert plan.wanted_stop(1) == 3
        plan.withdraw(TrialId(1))
        assert plan.wanted_stop(1) == 0

    def test_a_branch_wants_a_running_batch_up_to_where_it_begins(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a", 10)
        begin(plan, 1)
        ask(plan, 1, "0a/4c", 6)
        plan.withdraw(TrialId(0))
        assert plan.wanted_stop(1) == 4

    def test_the_tail_that_was_cut_off_is_handed_back(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a", 3)
        ask(plan, 1, "0a/4b", 10)
        begin(plan, 1)
        plan.withdraw(TrialId(1))
        plan.cut(1, 3)
        ask(plan, 2, "0a/4b", 10)
        assert tree(plan) == ["0a 3-4 running", "0a/4b 4-10 stage"]
        plan.add_checkpoint(ref("0a", 3))
        assert words(plan.next_batch()) == ["0a@3", "0a 3-4", "0a/4b 4-10"]
        check(plan)

    def test_the_end_of_a_cut_batch_is_where_its_worker_saves(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a", 10)
        begin(plan, 1)
        plan.cut(1, 6)
        ask(plan, 1, "0a", 6)
        assert plan.splits(1) == []
        assert plan.wanted_stop(1) == 6

    def test_a_batch_that_runs_for_nobody_leaves_nothing_when_it_ends(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a/4b", 10)
        begin(plan, 1)
        plan.withdraw(TrialId(0))
        assert tree(plan) == []
        plan.end(1)
        assert not facts_of(plan).nodes

    def test_what_follows_a_batch_waits_for_its_end_in_a_restored_plan_too(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a", 2)
        batch = begin(plan, 1)
        ask(plan, 1, "0a", 4)
        plan.withdraw(TrialId(0))
        again = SearchPlan()
        ask(again, 1, "0a", 4)
        again.resume(1, batch, path("0a"))
        assert tree(again) == tree(plan) == ["0a 2-4 running"]
        check(again)

    def test_a_request_takes_the_place_of_the_trials_earlier_one(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a/4b", 10)
        ask(plan, 0, "0a/4c", 6)
        assert tree(plan) == ["0a 0-4 fresh", "0a/4c 4-6 stage"]
        assert plan.target_of(TrialId(0)) == 6


class TestChoice:
    def test_what_is_urgent_comes_first_and_leads_the_way(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a", 100)
        ask(plan, 1, "0b/2b", 50)
        ask(plan, 2, "0b/2c", 5, is_urgent=True)
        assert words(plan.next_batch()) == ["fresh", "0b 0-2", "0b/2c 2-5"]
        ask(plan, 2, "0b/2c", 5)
        assert words(plan.next_batch()) == ["fresh", "0a 0-100"]

    def test_the_longest_way_comes_first_in_measured_time(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a/4b", 20)
        ask(plan, 1, "0b", 15)
        assert words(plan.next_batch()) == ["fresh", "0a 0-4", "0a/4b 4-20"]
        plan.set_cost(NodeKey("0b"), 2.0)
        plan.set_cost(NodeKey("0a"), 1.0)
        assert words(plan.next_batch()) == ["fresh", "0b 0-15"]
        check(plan)

    def test_a_held_checkpoint_comes_first_unless_another_way_is_much_longer(self, plan: SearchPlan) -> None:
        for trial, root in enumerate("abc"):
            plan.add_checkpoint(ref(f"0{root}", 2))
            ask(plan, trial, f"0{root}", 10)
        assert words(plan.next_batch([ref("0b", 2)])) == ["0b@2", "0b 2-10"]
        assert words(plan.next_batch([ref("0c", 2), ref("0b", 2)])) == ["0b@2", "0b 2-10"]
        ask(plan, 3, "0a", 2 + 8 * HELD_WORTH)
        assert words(plan.next_batch([ref("0b", 2)]))[0] == "0b@2"
        ask(plan, 3, "0a", 3 + 8 * HELD_WORTH)
        assert words(plan.next_batch([ref("0b", 2)]))[0] == "0a@2"

    def test_the_least_that_follows_comes_first_of_equally_long_ways(self, plan: SearchPlan) -> None:
        for trial, leaf in enumerate(("0a/2a", "0a/2b", "0b/2a")):
            ask(plan, trial, leaf, 8)
        assert words(plan.next_batch()) == ["fresh", "0b 0-2", "0b/2a 2-8"]

    def test_the_smallest_trial_comes_first_of_equals(self, plan: SearchPlan) -> None:
        ask(plan, 2, "0a", 8)
        ask(plan, 1, "0b", 8)
        assert words(plan.next_batch()) == ["fresh", "0b 0-8"]

    def test_training_without_an_end_counts_as_one_unit_and_ends_a_batch(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a", UNBOUNDED)
        ask(plan, 1, "0b", 2)
        assert words(plan.next_batch()) == ["fresh", "0b 0-2"]
        plan.withdraw(TrialId(1))
        ask(plan, 2, "0a", 3)
        assert words(plan.next_batch()) == ["fresh", "0a 0-3", f"0a 3-{UNBOUNDED}"]
        check(plan)

    def test_a_batch_names_who_waits_for_each_of_its_stages(self, plan: SearchPlan) -> None:
        ask(plan, 3, "0a/4b", 10)
        ask(plan, 1, "0a/4c", 6)
        ask(plan, 2, "0a", 2)
        plan.add_checkpoint(ref("0a/4d", 5))
        ask(plan, 0, "0a/4d", 9)
        batch = begin(plan, 1)
        assert words(batch) == ["fresh", "0a 0-2", "0a 2-4", "0a/4b 4-10"]
        assert [stage.trials for stage in batch.stages] == [(1, 2, 3), (1, 3), (3,)]
        assert plan.subscribers_at(NodeKey("0a"), 2) == [0, 1, 2, 3]
        assert plan.subscribers_at(NodeKey("0a"), 3) == [0, 1, 3]
        assert plan.subscribers_at(NodeKey("0a/4b"), 5) == [3]
        assert plan.subscribers_at(NodeKey("0a/4b"), 11) == []


def measure(plan: SearchPlan, node: str, *seconds: float) -> None:
    """Tell what units of a node took, the last one last; all costs count in what was measured first."""
    for one in seconds:
        plan.set_cost(NodeKey(node), one)


class TestCosts:
    def test_only_how_costs_compare_counts(self, plan: SearchPlan) -> None:
        """What costs the same as everything else is told to nobody, however long it takes."""
        for trial, root in enumerate("ab"):
            ask(plan, trial, f"0{root}", 4)
        before = list(stages_of(plan))
        measure(plan, "0a", 3_600.0, 3_700.0)
        assert list(stages_of(plan)) == before
        measure(plan, "0b", 7_200.0)
        assert facts_of(plan).nodes[NodeKey("0b")].cost == 2_000_000

    def test_what_was_not_measured_takes_what_its_parent_takes(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a/4b", 10)
        measure(plan, "0a", 1.0, 3.0)
        assert [stage.total for stage in stages_of(plan)] == [30_000_000, 18_000_000]
        ask(plan, 1, "0a/4b/6c", 7)
        assert facts_of(plan).nodes[NodeKey("0a/4b/6c")].cost == 3_000_000
        check(plan)

    def test_a_root_that_was_not_measured_takes_the_mean(self, plan: SearchPlan) -> None:
        for trial, root in enumerate("abc"):
            ask(plan, trial, f"0{root}", 4)
        measure(plan, "0a", 1.0, 2.0)
        measure(plan, "0b", 4.0)
        assert facts_of(plan).nodes[NodeKey("0c")].cost == 3_000_000
        check(plan)

    def test_a_measure_of_its_own_stays(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a/4b", 10)
        measure(plan, "0a/4b", 1.0, 5.0)
        measure(plan, "0a", 2.0)
        assert facts_of(plan).nodes[NodeKey("0a/4b")].cost == 5_000_000

    def test_a_measure_is_kept_as_long_as_something_of_its_node_is(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a", 10)
        measure(plan, "0a", 1.0, 2.0)
        measure(plan, "0b", 4.0)

        def cost_when_asked_again() -> int:
            plan.withdraw(TrialId(0))
            ask(plan, 0, "0a", 10)
            return facts_of(plan).nodes[NodeKey("0a")].cost

        plan.add_checkpoint(ref("0a", 4))
        assert cost_when_asked_again() == 2_000_000
        plan.withdraw(TrialId(0))
        plan.remove_checkpoint(ref("0a", 4))
        assert cost_when_asked_again() == 3_000_000
        plan.set_cost(NodeKey("0a"), 2.0)
        assert cost_when_asked_again() == 3_000_000

    @pytest.mark.parametrize("cost", [math.nan, math.inf, -1.0])
    def test_a_cost_that_is_none_is_refused(self, plan: SearchPlan, cost: float) -> None:
        with pytest.raises(InternalError, match="not negative"):
            plan.set_cost(NodeKey("0a"), cost)


class TestCheckpoints:
    def test_the_nearest_one_lies_on_the_path(self, plan: SearchPlan) -> None:
        for position in (ref("0a", 3), ref("0a", 7), ref("0a/4b", 6), ref("0a/4b/8c", 10)):
            plan.add_checkpoint(position)
        steps = path("0a", "4b", "8c")
        found = [plan.nearest(steps, resource) for resource in (2, 3, 5, 6, 9, 10, 99)]
        assert found == [
            None,
            ref("0a", 3),
            ref("0a", 3),
            ref("0a/4b", 6),
            ref("0a/4b", 6),
            ref("0a/4b/8c", 10),
            ref("0a/4b/8c", 10),
        ]
        assert plan.nearest(path("0a", "4c"), 9) == ref("0a", 3)

    def test_a_lost_one_is_trained_again_from_the_one_below(self, plan: SearchPlan) -> None:
        plan.add_checkpoint(ref("0a", 2))
        plan.add_checkpoint(ref("0a", 4))
        ask(plan, 0, "0a/4b", 8)
        plan.remove_checkpoint(ref("0a", 4))
        assert words(plan.next_batch()) == ["0a@2", "0a 2-4", "0a/4b 4-8"]
        check(plan)

    def test_one_is_known_before_and_after_anybody_asks_for_its_node(self, plan: SearchPlan) -> None:
        plan.add_checkpoint(ref("0a/4b", 6))
        ask(plan, 0, "0a/4b", 8)
        assert words(begin(plan, 1)) == ["0a/4b@6", "0a/4b 6-8"]
        plan.add_checkpoint(ref("0a/4b", 8))
        plan.withdraw(TrialId(0))
        plan.end(1)
        assert not facts_of(plan).nodes
        ask(plan, 1, "0a/4b", 9)
        assert words(plan.next_batch()) == ["0a/4b@8", "0a/4b 8-9"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("steps", "target"), [((), 4), (("0a",), 0), (("1a",), 4), (("0a", "0b"), 4), (("0a", "5b", "3c"), 9)]
    )
    def test_a_path_begins_at_0_and_ascends(self, plan: SearchPlan, steps: tuple[str, ...], target: int) -> None:
        with pytest.raises(InternalError, match="begins at 0, ascends"):
            plan.request(TrialId(0), path(*steps), target)

    def test_a_node_is_at_one_place(self, plan: SearchPlan) -> None:
        plan.request(TrialId(0), (PathStep(0, NodeKey("a")), PathStep(4, NodeKey("b"))), 10)
        with pytest.raises(InternalError, match="another parent"):
            plan.request(TrialId(1), (PathStep(0, NodeKey("a")), PathStep(5, NodeKey("b"))), 10)

    def test_a_batch_is_begun_once_and_at_once(self, plan: SearchPlan) -> None:
        ask(plan, 0, "0a", 10)
        ask(plan, 1, "0b", 10)
        batch = begin(plan, 1)
        with pytest.raises(InternalError, match="no pending"):
            plan.begin(2, batch)
        other = plan.next_batch()
        assert other is not None
        with pytest.raises(InternalError, match="already"):
            plan.begin(1, other)
