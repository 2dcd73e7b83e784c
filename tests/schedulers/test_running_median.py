from __future__ import annotations

import math
import random
import statistics
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.schedulers.order_statistics import RunningMedian

NUMBERS = st.lists(st.one_of(st.sampled_from([0.0, 1.0, math.inf]), st.floats(-1e6, 1e6)), min_size=1, max_size=60)


@given(NUMBERS)
def test_the_median_is_what_brute_force_finds_after_every_number(numbers: list[float]) -> None:
    middle = RunningMedian()
    for count, number in enumerate(numbers, start=1):
        middle.add(number)
        assert len(middle) == count
        assert middle.median() == statistics.median(numbers[:count])
        assert middle.numbers() == sorted(numbers[:count])
        assert RunningMedian(middle.numbers()).median() == middle.median()


@pytest.mark.parametrize(
    "order", [range(5_000), range(5_000, 0, -1), [7] * 5_000, random.Random(1).sample(range(10**6), 5_000)]
)
def test_thousands_of_numbers_in_many_blocks_stay_in_order(order: list[int]) -> None:
    middle = RunningMedian()
    for number in order:
        middle.add(float(number))
    assert middle.numbers() == sorted(order)
    assert middle.median() == statistics.median(order)


@pytest.mark.parametrize(
    ("numbers", "median"),
    [
        ([1.5e308, 1.25e308], 1.375e308),
        ([5e-324, 5e-324], 5e-324),
        ([1.0, math.inf], math.inf),
        ([math.inf, math.inf], math.inf),
        ([0.1, 0.1], 0.1),
    ],
)
def test_the_mean_of_two_neither_overflows_nor_loses_the_smallest(numbers: list[float], median: float) -> None:
    assert RunningMedian(numbers).median() == median


def test_a_number_takes_about_its_eight_bytes() -> None:
    source = random.Random(2)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        middle = RunningMedian()
        for _ in range(50_000):
            middle.add(source.random())
        size = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(middle) == 50_000
    assert size / 50_000 < 16
