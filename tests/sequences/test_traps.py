"""Every trap of notes/stages.md 0, 2.2 and 2.3 that concerns sequences and keys, by its name there."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from asyncsearch.ids import NodeKey
from asyncsearch.plan.keys import path
from asyncsearch.sequences import (
    Sequence,
    chain,
    constant,
    cosine,
    cosine_restarts,
    cyclic,
    exponential,
    linear,
    multistep,
    step,
    values,
    warmup,
)
from asyncsearch.trial import UNBOUNDED
from tests.sequences.test_properties import as_params

ROOT = NodeKey("root")


def shared(first: Any, second: Any, horizon: int = 220) -> int:
    """Return the largest s for which two values of one hyper-parameter share [0, s)."""
    one, two = (path(ROOT, as_params({"lr": value}), horizon) for value in (first, second))
    for at, (left, right) in enumerate(zip(one, two, strict=False)):
        if left != right:
            return min(left.start, right.start)
        rest = [steps[at + 1].start if len(steps) > at + 1 else horizon for steps in (one, two)]
        if rest[0] != rest[1]:
            return min(rest)
    return horizon


class TestExamples:
    """notes/stages.md 2.3, "Examples"."""

    @pytest.mark.parametrize(
        ("first", "second", "units"),
        [
            (warmup(5, multistep(0.1, [90, 135])), warmup(5, exponential(0.1, 0.9)), 5),
            (multistep(0.1, [90, 135]), multistep(0.1, [90, 120]), 120),
            (multistep(0.1, [90, 135]), multistep(0.1, [80, 120]), 80),
            (constant(0.1), multistep(0.1, [90]), 90),
            (0.1, multistep(0.1, [90]), 90),
            (warmup(5, 0.1), warmup(10, 0.1), 0),
            (cosine_restarts(0.1, 10), cosine_restarts(0.1, 20), 0),
            (exponential(0.1, 0.9), exponential(0.1, 0.95), 0),
        ],
    )
    def test_they_share_as_many_units_as_the_note_says(self, first: Any, second: Any, units: int) -> None:
        assert shared(first, second) == shared(second, first) == units

    def test_milestones_beyond_the_request_matter_only_in_a_longer_one(self) -> None:
        short, long = (as_params({"lr": multistep(0.1, ms)}) for ms in ([90, 135], [90, 150]))
        assert path(ROOT, short, 120) == path(ROOT, long, 120)
        assert path(ROOT, short, 135) == path(ROOT, long, 135)
        assert path(ROOT, short, 136) != path(ROOT, long, 136)
        assert shared(multistep(0.1, [90, 135]), multistep(0.1, [90, 150])) == 135


class TestTheTableOfFunctions:
    """notes/stages.md 2.3, the table, row by row."""

    def test_constant_merges_with_plateaus_of_every_kind(self) -> None:
        same = [0.1, constant(0.1), values([0.1], []), multistep(0.1, [90]), step(0.1, 90), linear(0.1, 7, end=0.1)]
        same += [chain([0.1, 3], [90]), warmup(0, 0.1), warmup(4, 0.1, start=0.1), cosine(0.1, 5, eta_min=0.1)]
        keys = {path(ROOT, as_params({"lr": value}), 90) for value in same}
        assert len(keys) == 1

    def test_new_value_holds_at_the_milestone(self) -> None:
        assert [step.start for step in path(ROOT, as_params({"lr": multistep(0.1, [90])}), 91)] == [0, 90]
        assert len(path(ROOT, as_params({"lr": multistep(0.1, [90])}), 90)) == 1
        assert (multistep(0.1, [90]).at(89), multistep(0.1, [90]).at(90)) == (0.1, 0.01)

    def test_values_that_stay_merge_with_their_neighbours(self) -> None:
        assert shared(values([0.1, 0.1], [40]), constant(0.1)) == 220
        assert shared(values([0.1, 0.1, 0.2], [40, 50]), values([0.1, 0.2], [50])) == 220

    def test_exponential_begins_at_the_end_of_its_warm_up(self) -> None:
        warm = warmup(5, exponential(0.1, 0.5))
        assert [warm.at(time) for time in (5, 6, 7)] == [0.1, 0.05, 0.025]
        assert shared(chain([1, exponential(0.1, 0.5)], [5]), chain([1, exponential(0.1, 0.5)], [6])) == 5

    def test_exponential_does_not_restart_where_another_parameter_splits(self) -> None:
        alone = as_params({"lr": exponential(0.1, 0.9), "bs": 128})
        split = as_params({"lr": exponential(0.1, 0.9), "bs": values([128, 256], [70])})
        assert path(ROOT, alone, 70) == path(ROOT, split, 70)
        later = as_params({"lr": exponential(0.1, 0.9), "bs": values([128, 256], [71])})
        assert [step.start for step in path(ROOT, split, 220)] == [0, 70]
        assert path(ROOT, split, 220)[1] != path(ROOT, later, 220)[1]
        assert exponential(0.1, 0.9).at(70) == float(Fraction(1, 10) * Fraction(9, 10) ** 70)

    def test_linear_is_counted_from_the_end_of_the_warm_up(self) -> None:
        warm = warmup(5, linear(0.1, total=10))
        assert [warm.at(time) for time in (5, 10, 14, 15)] == [0.1, 0.05, 0.01, 0.0]

    def test_warm_up_has_a_value_for_each_step_and_starts_where_it_is_told_to(self) -> None:
        assert [warmup(5, 0.1).at(time) for time in (0, 0.5, 2.5, 5)] == [0.0, 0.01, 0.05, 0.1]
        assert warmup(5, 0.1, start=0.02).at(0) == 0.02
        assert shared(warmup(5, 0.1), warmup(5, 0.1, start=0.02)) == 0

    def test_warm_ups_to_one_value_share_by_the_line_not_by_their_names(self) -> None:
        assert shared(warmup(5, 0.1), warmup(10, 0.2)) == 5
        assert shared(warmup(20, 0.1, start=0.001), cyclic(0.001, 0.1, up=20)) == 20

    def test_cycles_and_restarts_share_until_they_differ(self) -> None:
        assert shared(cosine(0.1, 10), cosine_restarts(0.1, 10)) == 10
        assert shared(cosine_restarts(0.1, 10), cosine_restarts(0.1, 10, T_mult=2)) == 20 - 10
        assert shared(cyclic(0, 1, up=5), cyclic(0, 1, up=5, mode="triangular2")) == 10
        assert shared(cyclic(0, 1, up=5), cyclic(0, 1, up=5, down=7)) == 5

    def test_momentum_cycles_only_where_it_is_told_to(self) -> None:
        """torch's CyclicLR moves momentum too, by default."""
        params = as_params({"lr": cyclic(0.001, 0.1, up=20), "momentum": 0.9})
        assert path(ROOT, params, 20) != path(ROOT, {**params, "momentum": cyclic(0.9, 0.8, up=20).to_json()}, 20)

    def test_milestones_are_absolute_after_a_warm_up(self) -> None:
        """torch's SequentialLR would restart the clock inside: 95."""
        cold, warm = multistep(0.1, [90, 135]), warmup(5, multistep(0.1, [90, 135]))
        assert [cold.at(time) for time in (89, 90, 134, 135)] == [warm.at(time) for time in (89, 90, 134, 135)]
        assert warmup(5, multistep(0.1, [3, 90])).at(5) == 0.01
        assert chain([1, step(0.1, 30)], [45]).at(45) == 0.01


class TestEqualityIsStructural:
    """notes/stages.md 0.2 and 2.3: structural keys are sound, sampling and floats are not."""

    def test_decimals_of_different_ways_are_one_number(self) -> None:
        assert shared(multistep(0.1, [90], gamma=0.1), values([0.1, 0.01], [90])) == 220
        assert shared(multistep(1.0, [50, 60], 0.97), values([1.0, 0.97, 0.9409], [50, 60])) == 220
        assert shared(step(0.3, 10, 0.9), multistep(0.3, range(10, 221, 10), 0.9)) == 220

    def test_equal_first_samples_are_not_equal_pieces(self) -> None:
        """Warmup 5 and 10 both start at 0; an exponential starts as the constant does."""
        assert warmup(5, 0.1).at(0) == warmup(10, 0.1).at(0)
        assert shared(warmup(5, 0.1), warmup(10, 0.1)) == 0
        assert shared(exponential(0.1, 0.9), constant(0.1)) == 0

    @pytest.mark.parametrize(("first", "second"), [(1, 1.0), (1, True), (0, False), ("1", 1), (None, "None")])
    def test_types_of_values_are_not_confused(self, first: Any, second: Any) -> None:
        assert shared(constant(first), constant(second)) == shared(first, second) == 0

    def test_a_text_that_looks_like_a_piece_is_none(self) -> None:
        line = path(ROOT, as_params({"lr": warmup(5, 0.1)}), 5)
        for imitation in ("line 0 1/50", {"sequence ": "line 0 1/50"}, ["sequence", "line 0 1/50"]):
            assert path(ROOT, {"lr": imitation}, 5) != line

    def test_parameters_are_not_confused_with_each_other(self) -> None:
        one = as_params({"a": multistep(1, [5], 2), "b": 1})
        two = as_params({"a": 1, "b": multistep(1, [5], 2)})
        assert path(ROOT, one, 5) == path(ROOT, two, 5)
        assert path(ROOT, one, 6)[1] != path(ROOT, two, 6)[1]

    def test_order_and_nesting_of_parameters(self) -> None:
        lr = multistep(0.1, [5]).to_json()
        assert path(ROOT, {"a": 1, "lr": lr}, 9) == path(ROOT, {"lr": lr, "a": 1}, 9)
        assert path(ROOT, {"m": {"lr": lr}}, 9) != path(ROOT, {"lr": lr}, 9)


class TestNodes:
    def test_they_begin_at_the_union_of_all_boundaries_and_nowhere_else(self) -> None:
        params = as_params(
            {"lr": multistep(0.1, [90, 135]), "bs": values([128, 256], [70]), "m": {"x": [values([1, 2], [90])]}}
        )
        assert [step.start for step in path(ROOT, params, 120)] == [0, 70, 90]
        assert [step.start for step in path(ROOT, params, UNBOUNDED)] == [0, 70, 90, 135]

    def test_a_key_contains_where_it_begins_and_everything_before(self) -> None:
        """Two branches that come to equal values again are not the same: their weights differ."""
        detour = path(ROOT, as_params({"lr": values([0.1, 0.5, 0.1], [10, 20])}), 100)
        direct = path(ROOT, as_params({"lr": 0.1}), 100)
        assert detour[0] == direct[0]
        assert len({step.node for step in (*detour, *direct)}) == 3
        one, two = (path(ROOT, as_params({"lr": values([0.1, middle, 0.1], [10, 20])}), 100) for middle in (0.5, 0.6))
        assert one[2].start == two[2].start == 20
        assert one[2].node != two[2].node

    def test_an_endless_trial_has_a_finite_path(self) -> None:
        endless: list[Sequence] = [step(0.1, 1), cyclic(0, 1, up=1), cosine_restarts(0.1, 1)]
        for sequence in endless:
            steps = path(ROOT, as_params({"lr": sequence}), UNBOUNDED)
            assert len(steps) <= 257
            assert all(one.start < other.start for one, other in pairwise(steps))
            assert path(ROOT, as_params({"lr": sequence}), 50) == steps[:50]
