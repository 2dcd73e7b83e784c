"""Fair shares: never more than there is or than is asked for, nothing left over, max-min fair, and no flapping."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.errors import UsageError
from asyncsearch.fair.demands import Demand
from asyncsearch.fair.shares import REMEMBERED_S, Service
from tests.fair.shares import fair_rates, shares

WEIGHTS = st.sampled_from([0.5, 1.0, 2.0, 3.0, 7.5])
LIMITS = st.none() | st.integers(1, 12)


@st.composite
def demands(draw: st.DrawFn) -> list[Demand]:
    count = draw(st.integers(1, 6))
    return [
        Demand(str(n), draw(st.integers(0, 15)), draw(WEIGHTS), draw(LIMITS), draw(st.integers(-1, 1)))
        for n in range(count)
    ]


WORKERS = st.integers(0, 20)


@given(demands(), WORKERS)
def test_a_share_is_the_exact_one_rounded_down_or_up(asked: list[Demand], workers: int) -> None:
    rates, found = fair_rates(asked, workers), shares(asked, workers)
    for study, rate in rates.items():
        assert math.floor(rate) <= found[study] <= math.ceil(rate)


@given(demands(), WORKERS)
def test_shares_exceed_neither_the_workers_nor_the_demand_nor_the_limit(asked: list[Demand], workers: int) -> None:
    found = shares(asked, workers)
    assert sum(found.values()) <= workers
    for one in asked:
        assert 0 <= found[one.study] <= min(one.workers, one.max_workers or one.workers)


@given(demands(), WORKERS)
def test_no_worker_is_left_that_a_study_could_use(asked: list[Demand], workers: int) -> None:
    assert sum(shares(asked, workers).values()) == min(workers, sum(one.limit for one in asked))


@given(demands(), WORKERS)
def test_a_lower_priority_has_only_what_higher_ones_cannot_use(asked: list[Demand], workers: int) -> None:
    found = shares(asked, workers)
    for high in asked:
        for low in asked:
            if high.priority > low.priority and found[low.study]:
                assert found[high.study] == high.limit


def poured(asked: list[Demand], workers: int, drop: Fraction) -> dict[str, Fraction]:
    """Pour workers drop by drop, each into the open study that has least for its weight."""
    found = {one.study: Fraction(0) for one in asked}
    left = Fraction(workers)
    for priority in sorted({one.priority for one in asked}, reverse=True):
        group = [one for one in asked if one.priority == priority]
        while left > 0 and (open_ones := [one for one in group if found[one.study] < one.limit]):
            least = min(open_ones, key=lambda one: found[one.study] / Fraction(one.weight))
            found[least.study] += drop
            left -= drop
    return found


@given(demands(), st.integers(0, 10))
def test_rates_are_what_pouring_drop_by_drop_gives(asked: list[Demand], workers: int) -> None:
    drop = Fraction(1, 16)
    rates, oracle = fair_rates(asked, workers), poured(asked, workers, drop)
    for one in asked:
        assert abs(rates[one.study] - oracle[one.study]) <= drop * len(asked) * 15


@given(demands(), WORKERS)
def test_a_study_with_more_demand_has_as_much_for_its_weight_as_its_peers(asked: list[Demand], workers: int) -> None:
    rates = fair_rates(asked, workers)
    level = {one.study: rates[one.study] / Fraction(one.weight) for one in asked}
    for poor in asked:
        if rates[poor.study] < poor.limit:
            assert all(level[poor.study] >= level[one.study] for one in asked if one.priority == poor.priority)


@given(demands(), WORKERS)
def test_with_more_workers_or_less_demand_of_another_no_study_has_less(asked: list[Demand], workers: int) -> None:
    rates = fair_rates(asked, workers)
    more = fair_rates(asked, workers + 1)
    assert all(more[study] >= rate for study, rate in rates.items())
    first = asked[0]
    less = fair_rates([Demand(first.study, 0, priority=first.priority), *asked[1:]], workers)
    assert all(less[one.study] >= rates[one.study] for one in asked[1:])


@given(demands(), st.integers(1, 20))
def test_nobody_of_the_highest_priority_starves(asked: list[Demand], workers: int) -> None:
    rates = fair_rates(asked, workers)
    highest = max(one.priority for one in asked if one.limit) if any(one.limit for one in asked) else None
    assert all(rates[one.study] > 0 for one in asked if one.limit and one.priority == highest)


@given(demands(), WORKERS)
def test_where_shares_are_rounded_up_the_highest_lag_comes_first(asked: list[Demand], workers: int) -> None:
    rates = fair_rates(asked, workers)
    parted = [one for one in asked if rates[one.study] != int(rates[one.study])]
    for one in parted:
        found = shares(asked, workers, lags={one.study: 1.0})
        assert found[one.study] == math.ceil(rates[one.study])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"weight": 0}, "weight=0 must be a positive, finite number"),
        ({"weight": -1.0}, "weight=-1.0 must be a positive"),
        ({"weight": math.nan}, "weight=nan must be a positive"),
        ({"weight": math.inf}, "weight=inf must be a positive"),
        ({"max_workers": 0}, "max_workers=0 must be a positive integer"),
        ({"priority": 0.5}, "priority=0.5 must be an integer"),
        ({"priority": True}, "priority=True must be an integer"),
    ],
)
def test_an_impossible_demand_is_refused_in_words(wrong: dict[str, float], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Demand("a", 1, **wrong)  # type: ignore[arg-type]


def after(seconds: float, rates: dict[str, float], held: dict[str, int]) -> Service:
    service = Service()
    service.hold(rates, held)
    service.advance(seconds)
    return service


def test_who_misses_workers_lags_and_who_has_them_instead_leads() -> None:
    assert after(10.0, {"a": 0.5, "b": 0.5}, {"a": 1}).lags == {"a": -5.0, "b": 5.0}


def test_workers_beyond_a_share_count_only_as_far_as_others_miss_them() -> None:
    assert after(10.0, {"a": 1.0, "b": 1.0}, {"a": 3}).lags == {"a": -10.0, "b": 10.0}
    assert after(10.0, {"a": 1.0}, {"a": 3}).lags == {"a": 0.0}


def test_a_study_that_can_use_nothing_is_owed_nothing_when_it_comes_back() -> None:
    service = after(10.0, {"a": 0.5, "b": 0.5}, {"a": 1})
    service.hold({"a": 1.0, "b": 0.0}, {"a": 1})
    service.hold({"a": 0.5, "b": 0.5}, {"a": 1})
    assert service.lags == {"a": -5.0, "b": 0.0}


@pytest.mark.parametrize(("remembered_s", "most_s"), [(REMEMBERED_S, 600.0), (7200.0, 7200.0)])
def test_a_lag_is_remembered_so_far_and_no_further(remembered_s: float, most_s: float) -> None:
    service = Service(remembered_s)
    service.hold({"a": 1.0, "b": 1.0}, {"a": 2})
    service.advance(100_000.0)
    assert service.lags == {"a": -most_s, "b": most_s}


def test_unusable_workers_are_missed_by_all_in_proportion_to_their_due() -> None:
    assert after(10.0, {"a": 1.0, "b": 3.0}, {"a": 2}).lags == {"a": -15.0, "b": 15.0}
    idle = after(10.0, {"a": 1.0, "b": 3.0}, {})
    assert idle.lags == {"a": 0.0, "b": 0.0}, "nobody was preferred"


def test_who_leads_far_does_not_hide_which_of_the_others_lags() -> None:
    service = Service()
    rates = {"a": 1.0, "b": 1.0, "lucky": 1.0}
    for _ in range(1_000):
        service.hold(rates, {"a": 2, "lucky": 2})
        service.advance(service._now + 30.0)
        service.hold(rates, {"b": 2, "lucky": 2})
        service.advance(service._now + 30.0)
    assert service.lags["a"] == pytest.approx(service.lags["b"])
    service.hold(rates, {"a": 2, "lucky": 2})
    service.advance(service._now + 30.0)
    assert service.lags["b"] - service.lags["a"] == pytest.approx(45.0)


def test_a_clock_that_stands_still_or_goes_back_adds_nothing() -> None:
    service = after(10.0, {"a": 0.5, "b": 0.5}, {"a": 1})
    service.advance(3.0)
    service.advance(10.0)
    assert service.lags == {"a": -5.0, "b": 5.0}
