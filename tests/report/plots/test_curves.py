"""The numbers that plots of a study show."""

from __future__ import annotations

from itertools import pairwise

import pytest

from asyncsearch.ids import TrialId
from asyncsearch.report.plots.curves import best_so_far, curves, thinned, value_range, whole_ticks


def test_one_diverged_value_does_not_flatten_the_others() -> None:
    low, high = value_range([*(0.1 * place for place in range(10)), 1e9])
    assert -1 < low <= 0
    assert high < 10


@pytest.mark.parametrize("values", [[3.0], [0.0], [-2.0, -2.0], [1.0, 2.0]])
def test_all_values_that_are_no_outliers_lie_inside(values: list[float]) -> None:
    low, high = value_range(values)
    assert low < min(values) <= max(values) < high


@pytest.mark.parametrize(("low", "high"), [(1, 1), (1, 2), (0, 9), (1, 20), (0, 45), (0, 123_456), (7, 10**12)])
def test_ticks_of_resources_are_whole_and_few_and_lie_on_the_axis(low: int, high: int) -> None:
    ticks = whole_ticks(low, high)
    assert 1 <= len(ticks) <= 10
    assert all(low <= tick <= high for tick in ticks)
    assert len({later - earlier for earlier, later in pairwise(ticks)}) <= 1


@pytest.mark.parametrize("length", [1, 2, 19, 20, 21, 1000])
def test_a_thinned_curve_keeps_its_ends_and_its_order(length: int) -> None:
    curve = [(at, -float(at)) for at in range(length)]
    thin = thinned(curve, 20)
    assert len(thin) == min(length, 20)
    assert (thin[0], thin[-1]) == (curve[0], curve[-1])
    assert thin == sorted(set(thin))


def test_the_best_so_far_counts_the_training_of_all_trials() -> None:
    one, other = TrialId(0), TrialId(1)
    points = [(one, 1, 0.5), (other, 1, 0.7), (one, 3, 0.4), (other, 2, 0.6)]
    assert best_so_far(points, "min") == [(1, 0.5), (4, 0.4), (5, 0.4)]
    assert best_so_far(points, "max") == [(1, 0.5), (2, 0.7), (5, 0.7)]
    assert curves(points) == {one: [(1, 0.5), (3, 0.4)], other: [(1, 0.7), (2, 0.6)]}
